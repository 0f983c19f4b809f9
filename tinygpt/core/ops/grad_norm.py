"""The gradients' global norm, and the factor that clips them. What updates the weights applies it."""

from tinygpt.core.ops.flat import stretches_of
from tinygpt.core.ops.gpu import GROUP, SLICE_LINE, Device, Dispatch, Segment, Target, ceil_div, texts, width
from tinygpt.core.ops.op import Op, Tensor, declare, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

NORM_CHUNKS = shared("NORM_CHUNKS", 256)  # partial sums of squares on a CPU, whatever the number of threads
NORM_GROUPS = 1024  # and at most on a GPU


def grad_norm(op: Op, target: Target) -> list[Dispatch]:
    """Partial sums of each segment, then the norm of all."""
    segments = stretches_of(op, target, ["grads"])
    counts = [norm_groups(segment.floats) for segment in segments]
    partials = Tensor(f"partials.{target.index}", (sum(counts),))
    result, first = [], 0
    for segment, count in zip(segments, counts):  # noqa: B905 (MicroPython's zip takes no strict)
        result.append(square_sums(segment, partials, first, count, target))
        first += count
    return result + [clip(partials, first, op, target.device)]


def norm_groups(P: int) -> int:
    """How many partial sums of squares are taken of P numbers."""
    return min(NORM_GROUPS, ceil_div(P, 16 * GROUP))


def square_sums(segment: Segment, partials: Tensor, first: int, groups: int, target: Target) -> Dispatch:
    """partials[first : first + groups] add up to the squares of its gradients, padded with zeros to whole lines."""
    constants: dict[str, Constant] = {"P": segment.floats, "FIRST": first, "SLICES": target.slices, "LANES": GROUP}
    return Dispatch(
        texts("grad_norm", width(SLICE_LINE), target.device, sliced=True),
        "square_sums",
        [("grads", segment.tensors["grads"])],
        [("partials", partials)],
        constants,
        (groups, 1, 1),
    )


def clip(partials: Tensor, count: int, op: Op, device: Device) -> Dispatch:
    """norm[0], the root of the partial sums' sum, and norm[1], the factor that brings it down to `limit`."""
    constants: dict[str, Constant] = {"COUNT": count, "LIMIT": op.scalar("limit"), "LANES": GROUP}
    files = texts("grad_norm", width(SLICE_LINE), device, sliced=True)
    return Dispatch(files, "clip", [("all_partials", partials)], [("norm", op.tensor("norm"))], constants, (1, 1, 1))


# norm[0] = |grads|, norm[1] = the factor that clips it to `limit` (1 where limit is 0)
declare(
    "grad_norm",
    "grads -> norm | P | limit",
    "grads=P norm=2",
    grad_norm,
    scratch=lambda op: 2 * NORM_CHUNKS,
)
