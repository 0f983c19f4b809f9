"""Bytes to vectors: the token's row plus, where positions are learned, the position's."""

from tinygpt.core.ops.gpu import (
    GROUP,
    Dispatch,
    Target,
    bound,
    ceil_div,
    dims,
    flag,
    flat_grid,
    line_grid,
    texts,
    width,
)
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def embed(op: Op, target: Target) -> list[Dispatch]:
    N, C, wide = op.dim("N"), op.dim("C"), width(op.dim("C"))
    constants = dims(op, "N T C")
    constants["HAS_WPE"] = flag(op.tensor("wpe"))
    constants["HAS_POSITION"] = 0
    reads = bound(op, "tokens wte wpe") + [("position", None)]
    grid = flat_grid(N * C // wide, target.device)
    return [Dispatch(texts("embed", wide), "embed", reads, bound(op, "x"), constants, grid)]


def embed_one(op: Op, target: Target) -> list[Dispatch]:
    R, C, wide = op.dim("R"), op.dim("C"), width(op.dim("C"))
    constants: dict[str, Constant] = {"N": R, "T": 1, "C": C, "HAS_WPE": flag(op.tensor("wpe")), "HAS_POSITION": 1}
    reads = bound(op, "tokens wte wpe position")
    grid = flat_grid(R * C // wide, target.device)
    return [Dispatch(texts("embed", wide), "embed", reads, bound(op, "x"), constants, grid)]


def embed_backward(op: Op, target: Target) -> list[Dispatch]:
    slices, wide = target.slices, width(op.dim("C"))
    constants = dims(op, "N T V C accumulate tied")
    constants["HAS_DWPE"] = flag(op.tensor("dwpe"))
    constants["SLICES"] = slices
    words = op.dim("C") // wide
    groups = op.dim("V") * ceil_div(words, 32) * slices
    if op.tensor("dwpe") is not None:
        groups += ceil_div(op.dim("T") * words * slices, GROUP)
    return [
        Dispatch(
            texts("embed_backward", wide, sliced=True),
            "embed_backward",
            bound(op, "tokens dx"),
            bound(op, "dwte dwpe"),
            constants,
            line_grid(groups, target.device),
        )
    ]


# x[n] = wte[tokens[n]] (+ wpe[n mod T])   (A lookup does not need the vocabulary's size.)
declare("embed", "tokens wte wpe? -> x | N T C", "tokens:i32=N wpe=T,C x=N,C", embed)
# dwte[v] (+)= sum of dx[n] over tokens[n] = v; with `tied` the head's gradient is there already and is added to
# dwpe[t] (+)= sum over the batch of dx[b, t]
declare(
    "embed_backward",
    "tokens dx -> dwte++ dwpe?+ | N T V C accumulate=0 tied",
    "tokens:i32=N dx=N,C dwte=V,C dwpe=T,C",
    embed_backward,
)
# Generation, the newest token of each of R texts: position[r] is its place.
declare("embed_one", "tokens position wte wpe? -> x | C R=1", "tokens:i32=R position:i32=R x=R,C", embed_one)
