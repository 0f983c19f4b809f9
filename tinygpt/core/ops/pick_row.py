"""One row of many."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid
from tinygpt.core.ops.op import Op, declare


def pick_row(op: Op, target: Target) -> list[Dispatch]:
    grid = flat_grid(op.dim("C"), target.device)
    return [Dispatch(["pick_row.wgsl"], "pick_row", bound(op, "x position row"), bound(op, "y"), dims(op, "C"), grid)]


# y = x[position[row[0]]], the newest row of the text of that number, of R
declare("pick_row", "x position row -> y | N C R=1", "x=N,C position:i32=R row:i32=1 y=1,C", pick_row)
