"""Every kernel's declaration, a file per family: signature, shapes, FLOPs, working memory, and what a GPU dispatches.

tinygpt/kernels/ has the kernels themselves under the same stems, in NumPy, C++ and WGSL.
"""

import tinygpt.core.ops.activation
import tinygpt.core.ops.adamw
import tinygpt.core.ops.add
import tinygpt.core.ops.attention
import tinygpt.core.ops.average
import tinygpt.core.ops.compact
import tinygpt.core.ops.cross_entropy
import tinygpt.core.ops.dropout
import tinygpt.core.ops.embed
import tinygpt.core.ops.grad_norm
import tinygpt.core.ops.init
import tinygpt.core.ops.kv_heads
import tinygpt.core.ops.layernorm
import tinygpt.core.ops.likeliest
import tinygpt.core.ops.linear
import tinygpt.core.ops.muon
import tinygpt.core.ops.ngrams
import tinygpt.core.ops.pick_row
import tinygpt.core.ops.qk_norm
import tinygpt.core.ops.record
import tinygpt.core.ops.rmsnorm
import tinygpt.core.ops.rotary
import tinygpt.core.ops.sample
import tinygpt.core.ops.scan
import tinygpt.core.ops.sgd
import tinygpt.core.ops.softcap
import tinygpt.core.ops.swiglu
import tinygpt.core.ops.windows  # noqa: F401
from tinygpt.core.ops.op import KERNELS

KERNEL_NAMES = sorted(KERNELS)  # a kernel's number is its place in this list
