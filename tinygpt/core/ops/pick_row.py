"""One row of many."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid
from tinygpt.core.ops.op import Op, declare


def pick_row(op: Op, target: Target) -> list[Dispatch]:
    grid = flat_grid(op.dim("C"), target.device)
    return [Dispatch(["pick_row.wgsl"], "pick_row", bound(op, "x position"), bound(op, "y"), dims(op, "C"), grid)]


declare("pick_row", "x position -> y | N C", "x=N,C position:i32=1 y=1,C", pick_row)
