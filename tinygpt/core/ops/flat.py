"""Ops over the flat vectors of all parameters: on a GPU a dispatch per segment."""

from tinygpt.core.ops.gpu import Dispatch, Segment, Target, bound, flat_grid, texts, width
from tinygpt.core.ops.op import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def segments_of(op: Op, target: Target, names: "list[str]") -> list[Segment]:
    """Those of the run, or the op's own tensors as a single one; `names` are the op's names of the flat vectors."""
    if target.segments is not None:
        return target.segments
    tensors = {name: op.tensor(name) for name in names}
    decayed = op.dim("decayed") if "decayed" in op.declared.dims else 0
    return [Segment(0, op.dim("P"), decayed, tensors)]  # type: ignore[arg-type]


def update(op: Op, target: Target) -> list[Dispatch]:
    """Of an optimizer: the op's outputs are the weights and its slots, by the names that those have."""
    return [update_of(segment, op, target) for segment in segments_of(op, target, ["grads"] + op.declared.outputs)]


def update_of(segment: Segment, op: Op, target: Target) -> Dispatch:
    wide = width(segment.floats, segment.decayed)
    constants: dict[str, Constant] = {"P": segment.floats, "DECAYED": segment.decayed, "SLICES": target.slices}
    constants["ROWS"] = op.dim("rows")
    for name in op.declared.scalars:
        constants[name.upper()] = op.scalar(name)
    return Dispatch(
        texts(op.kernel, wide, sliced=True),
        op.kernel,
        [("grads", segment.tensors["grads"])] + bound(op, "norm rates counters"),
        [(name, segment.tensors[name]) for name in op.declared.outputs],
        constants,
        flat_grid(segment.floats // wide, target.device),
    )
