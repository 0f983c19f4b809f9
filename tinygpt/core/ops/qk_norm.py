"""Queries and keys normalised by their root mean square, head by head."""

from tinygpt.core.ops.gpu import GROUP, Dispatch, Target, bound, dims, row_grid, texts, width
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def qk_norm(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "qkv", "y rstd", {"EPS": op.scalar("eps")}, target)


def qk_norm_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "dy y rstd", "dqkv", {}, target)


def dispatch(op: Op, reads: str, writes: str, constants: "dict[str, Constant]", target: Target) -> list[Dispatch]:
    """A head of q, k or v is a row."""
    heads, wide = op.dim("N") * 3 * op.dim("H"), width(op.dim("D"))
    constants.update(dims(op, "N H D"))
    constants["LANES"] = lanes = lanes_for(op.dim("D") // wide)
    files = texts(op.kernel, wide, target.device)
    grid = row_grid(heads, lanes, target.device)
    return [Dispatch(files, op.kernel, bound(op, reads), bound(op, writes), constants, grid)]


def lanes_for(words: int) -> int:
    """How many invocations share a head's few words."""
    lanes = 1
    while 2 * lanes <= min(words, GROUP):
        lanes *= 2
    return lanes


# Of every head, q and k: y = x * rstd with rstd = 1 / sqrt(mean(x^2) + eps); v is copied
declare(
    "qk_norm",
    "qkv -> y rstd | N H D | eps",
    "qkv=N,3*H*D y=N,3*H*D rstd=N,2*H",
    qk_norm,
)
declare(
    "qk_norm_backward",
    "dy y rstd -> dqkv | N H D",
    "dy=N,3*H*D y=N,3*H*D rstd=N,2*H dqkv=N,3*H*D",
    qk_norm_backward,
)
