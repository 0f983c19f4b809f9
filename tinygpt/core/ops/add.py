"""The sum of two matrices: where a branch meets what went past it."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare


def add(op: Op, target: Target) -> list[Dispatch]:
    wide = width(op.dim("C"))
    grid = flat_grid(op.dim("N") * op.dim("C") // wide, target.device)
    return [Dispatch(texts("add", wide), "add", bound(op, "x residual"), bound(op, "y"), dims(op, "N C"), grid)]


# y = x + residual
declare("add", "x residual -> y | N C", "x=N,C residual=N,C y=N,C", add)
