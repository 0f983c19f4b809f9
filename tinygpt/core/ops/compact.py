"""Weights that are read as a compact file keeps them: whole numbers from -127 to 127, with a scale per row.

To write a byte is to read every weight once, so a quarter of the bytes is most of the time. A product of many rows is
not bound by that: it takes weights that were unpacked for it.
"""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Dispatch, Target
from tinygpt.core.ops.linear import matmul_flops
from tinygpt.core.ops.op import Op, declare

# What is behind the name of the kernel that takes weights of a dtype, if there is another one for it.
READS = {"i8": "_int8"}


def not_on_a_gpu(op: Op, target: Target) -> list[Dispatch]:
    raise TinyGPTError("a GPU is given weights as floats; this is a bug")


# y[N,O] = (x[N,I] weight[O,I]^T) * weight_scales[O] (+ bias) (+ residual), for few rows
declare(
    "linear_int8",
    "x weight weight_scales bias? residual? -> y | N O I",
    "x=N,I weight:i8=O,I weight_scales=O bias=O residual=N,O y=N,O",
    not_on_a_gpu,
    flops=matmul_flops,
)
# h = that;  y = f(h) with f of that `kind`
declare(
    "linear_activation_int8",
    "x weight weight_scales bias? residual? -> y | N O I kind",
    "x=N,I weight:i8=O,I weight_scales=O bias=O residual=N,O y=N,O",
    not_on_a_gpu,
    flops=matmul_flops,
)
# x[n] = wte[tokens[n]] * wte_scales[tokens[n]] (+ wpe[p] * wpe_scales[p], p = n mod T)
declare(
    "embed_int8",
    "tokens wte wte_scales wpe? wpe_scales? -> x | N T C",
    "tokens:i32=N wte:i8 wpe:i8 x=N,C",
    not_on_a_gpu,
)
# The same for the newest token of each of R texts, at p = position[r].
declare(
    "embed_one_int8",
    "tokens position wte wte_scales wpe? wpe_scales? -> x | C R=1",
    "tokens:i32=R position:i32=R wte:i8 wpe:i8 x=R,C",
    not_on_a_gpu,
)
# y[n] = x[n] * scales[n]
declare("unpack_int8", "x scales -> y | N C", "x:i8=N,C scales=N y=N,C", not_on_a_gpu)
