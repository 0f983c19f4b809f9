"""The norm of queries and keys and the turn by their positions, in one dispatch of a GPU; so their gradients."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, row_grid, texts, width
from tinygpt.core.ops.op import Op
from tinygpt.core.ops.qk_norm import lanes_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding


def are_turned(first: Op, second: Op) -> bool:
    """Whether heads are normed, then turned; or their gradients turned back, then brought through the norm."""
    if first.kernel == "qk_norm" and second.kernel == "rotary":
        return second.tensor("qkv") is first.tensor("y") and not second.dim("inverse")
    if first.kernel == "rotary" and second.kernel == "qk_norm_backward":
        return second.tensor("dy") is first.tensor("y") and first.dim("inverse") == 1
    return False


def turned(first: Op, second: Op, target: Target) -> list[Dispatch]:
    rotary = second if second.kernel == "rotary" else first
    wide, constants = width(rotary.dim("D") // 2), dims(rotary, "N T H D")
    constants["LANES"] = lanes = lanes_for(rotary.dim("D") // 2 // wide)
    reads: list[Binding] = [("qkv", first.tensor("qkv")), ("angles", rotary.tensor("angles"))]
    writes: list[Binding] = bound(first, "y rstd") if rotary is second else bound(second, "dqkv")
    if rotary is second:
        constants["EPS"] = first.scalar("eps")
        writes.append(("turned", second.tensor("y")))
    else:
        reads[0] = ("dturned", first.tensor("qkv"))
        reads += [("normed", second.tensor("y")), ("kept_rstd", second.tensor("rstd"))]
    entry = f"{first.kernel}_{second.kernel}"
    grid = row_grid(rotary.dim("N") * 3 * rotary.dim("H"), lanes, target.device)
    return [Dispatch(texts("qk_turn", wide, target.device), entry, reads, writes, constants, grid)]
