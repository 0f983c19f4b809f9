"""Weights that are read as a compact file keeps them: in float16, or as whole numbers from -127 to 127, with a scale
per row.

To write a byte is to read every weight once, so to read less is most of it. A product of many rows is not bound by
that: it takes weights that were unpacked for it.
"""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Dispatch, Target
from tinygpt.core.ops.linear import matmul_flops
from tinygpt.core.ops.op import Op, Program, Tensor, declare

# What is behind the name of the kernel that takes weights of a dtype, if there is another one for it.
READS = {"i8": "_int8", "f16": "_float16"}


def unpack(program: Program, x: Tensor, y: Tensor) -> None:
    """y = what x stands for."""
    scales = {} if x.scales is None else {"scales": x.scales}
    Program.call(program, "unpack" + READS[x.dtype], x=x, y=y, N=x.shape[0], C=x.shape[1], **scales)


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

# The same of float16.
declare(
    "linear_float16",
    "x weight bias? residual? -> y | N O I",
    "x=N,I weight:f16=O,I bias=O residual=N,O y=N,O",
    not_on_a_gpu,
    flops=matmul_flops,
)
declare(
    "linear_activation_float16",
    "x weight bias? residual? -> y | N O I kind",
    "x=N,I weight:f16=O,I bias=O residual=N,O y=N,O",
    not_on_a_gpu,
    flops=matmul_flops,
)
declare("embed_float16", "tokens wte wpe? -> x | N T C", "tokens:i32=N wte:f16 wpe:f16 x=N,C", not_on_a_gpu)
declare(
    "embed_one_float16",
    "tokens position wte wpe? -> x | C R=1",
    "tokens:i32=R position:i32=R wte:f16 wpe:f16 x=R,C",
    not_on_a_gpu,
)
declare("unpack_float16", "x -> y | N C", "x:f16=N,C y=N,C", not_on_a_gpu)
