"""Ops over the flat vectors of all parameters: on a GPU a dispatch per segment."""

from tinygpt.core.ops.gpu import Dispatch, Segment, Target, bound, flat_grid, texts, width
from tinygpt.core.ops.op import Op, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def stretches_of(op: Op, target: Target, names: "list[str]") -> list[Segment]:
    """The op's flat vectors `names`, all of the run's or a stretch of them, cut where the run's segments are."""
    P = op.dim("P")
    decayed = op.dim("decayed") if "decayed" in op.declared.dims else 0
    vectors = {name: op.tensor(name) for name in names}
    if target.segments is None:
        return [Segment(0, P, decayed, vectors)]  # type: ignore[arg-type]
    first = vectors[names[0]].start  # type: ignore[union-attr]
    result = []
    for segment in target.segments:
        begin, end = max(first, segment.start), min(first + P, segment.start + segment.floats)
        if begin < end:
            parts = {name: part(vectors[name], begin, end - begin) for name in names}  # type: ignore[arg-type]
            result.append(Segment(begin, end - begin, max(0, min(first + decayed, end) - begin), parts))
    return result


def part(vector: Tensor, start: int, floats: int) -> Tensor:
    """A view of a flat vector, or of what a stretch of one is of."""
    whole = vector.root()
    return whole.view(f"{whole.name}[{start}]", (floats,), start)


def update(op: Op, target: Target) -> list[Dispatch]:
    """Of an optimizer's op, whose outputs are flat vectors, too."""
    return [update_of(segment, op, target) for segment in stretches_of(op, target, ["grads"] + op.declared.outputs)]


def update_of(segment: Segment, op: Op, target: Target) -> Dispatch:
    wide = width(segment.floats, segment.decayed)
    constants: dict[str, Constant] = {"P": segment.floats, "DECAYED": segment.decayed, "SLICES": target.slices}
    constants["ROWS"] = op.dim("rows")
    if "columns" in op.declared.dims:
        constants["COLUMNS"] = op.dim("columns")
    for name in op.declared.scalars:
        constants[name.upper()] = op.scalar(name)
    files = texts(op.kernel, wide, sliced=True)
    files.insert(len(files) - 1, "update.wgsl")
    return Dispatch(
        files,
        op.kernel,
        [("grads", segment.tensors["grads"])] + bound(op, "norm rates counters"),
        [(name, segment.tensors[name]) for name in op.declared.outputs],
        constants,
        flat_grid(segment.floats // wide, target.device),
    )
