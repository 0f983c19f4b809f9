"""Weights are read as a compact file keeps them, in int8 or float16.

y = linear(x, W), few rows      y = linear_int8(x, W, scales of W)
y = linear(x, W), many rows     W.unpacked = unpack_int8(W, scales of W);  y = linear(x, W.unpacked)
x = embed(tokens, table)        x = embed_int8(tokens, table, scales of table)
"""

from tinygpt.core.ops.compact import READS, unpack
from tinygpt.core.ops.linear import FEW_ROWS
from tinygpt.core.ops.op import Op, Program
from tinygpt.core.passes.rewrite import rewritten, tensor_of, with_tensors


def compact(program: Program) -> Program:
    return rewritten(program, read_packed)


def read_packed(made: Program, op: Op) -> None:
    packed = [name for name in op.declared.inputs if is_packed(op, name)]
    if "weight" in packed and op.dim("N") >= FEW_ROWS:
        weight = tensor_of(op, "weight")
        unpacked = made.tensor(weight.name + ".unpacked", weight.shape)
        unpack(made, weight, unpacked)
        made.ops.append(with_tensors(op, weight=unpacked))
        return
    if not packed:
        made.ops.append(op)
        return
    arguments = op.arguments()
    reads = ""
    for name in packed:
        tensor = tensor_of(op, name)
        reads = READS[tensor.dtype]
        if tensor.scales is not None:
            arguments[name + "_scales"] = tensor.scales
    made.call(op.kernel + reads, **arguments)


def is_packed(op: Op, name: str) -> bool:
    """Whether this tensor is packed, and the op takes floats there."""
    tensor = op.tensor(name)
    return tensor is not None and tensor.dtype in READS and op.declared.dtypes.get(name) != tensor.dtype
