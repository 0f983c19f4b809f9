"""The gated MLP's activation."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare


def swiglu(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "gate_up", "y", target)


def swiglu_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "gate_up dy", "dgate_up", target)


def dispatch(op: Op, reads: str, writes: str, target: Target) -> list[Dispatch]:
    wide = width(op.dim("F"))
    grid = flat_grid(op.dim("N") * op.dim("F") // wide, target.device)
    files = texts("swiglu", wide)
    files.insert(len(files) - 1, "sigmoid.wgsl")
    return [Dispatch(files, op.kernel, bound(op, reads), bound(op, writes), dims(op, "N F"), grid)]


# y = silu(gate) * up with silu(g) = g sigmoid(g); gate is the first F columns of gate_up, up the others
declare("swiglu", "gate_up -> y | N F", "gate_up=N,2*F y=N,F", swiglu)
declare("swiglu_backward", "dy gate_up -> dgate_up | N F", "dy=N,F gate_up=N,2*F dgate_up=N,2*F", swiglu_backward)
