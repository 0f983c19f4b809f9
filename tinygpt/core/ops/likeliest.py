"""What a model would say behind each row."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, row_grid, row_lanes, texts
from tinygpt.core.ops.op import Op, declare


def likeliest(op: Op, target: Target) -> list[Dispatch]:
    N, device = op.dim("N"), target.device
    constants = dims(op, "N V")
    constants["LANES"] = lanes = row_lanes(N, op.dim("V"), device)
    grid = row_grid(N, lanes, device)
    return [
        Dispatch(texts("likeliest", 1, device), "likeliest", bound(op, "logits"), bound(op, "best"), constants, grid)
    ]


# best[n] = the first v whose logits[n, v] no other exceeds; -1 where not all of the row are numbers
declare("likeliest", "logits -> best | N V", "logits=N,V best:i32=N", likeliest)
