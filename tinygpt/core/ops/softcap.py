"""Soft-capped logits."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare


def softcap(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "x", "y", target)


def softcap_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "x dy", "dx", target)


def dispatch(op: Op, reads: str, writes: str, target: Target) -> list[Dispatch]:
    wide = width(op.dim("V"))
    constants = dims(op, "N V")
    constants["CAP"] = op.scalar("cap")
    grid = flat_grid(op.dim("N") * op.dim("V") // wide, target.device)
    return [Dispatch(texts("softcap", wide), op.kernel, bound(op, reads), bound(op, writes), constants, grid)]


# y = cap tanh(x / cap): x where it is small, and never beyond cap
declare("softcap", "x -> y | N V | cap", "x=N,V y=N,V", softcap)
declare("softcap_backward", "dy x -> dx | N V | cap", "dy=N,V x=N,V dx=N,V", softcap_backward)
