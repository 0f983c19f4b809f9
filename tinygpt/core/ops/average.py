"""A running average of the weights."""

from tinygpt.core.ops.flat import stretches_of
from tinygpt.core.ops.gpu import Dispatch, Target, bound, flat_grid, width
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def average(op: Op, target: Target) -> list[Dispatch]:
    return over_stretches(op, target, "live", "weights", "rates counters", {"ROWS": op.dim("rows")})


def copy(op: Op, target: Target) -> list[Dispatch]:
    return over_stretches(op, target, "x", "y", "", {})


def over_stretches(
    op: Op, target: Target, source: str, goal: str, others: str, constants: "dict[str, Constant]"
) -> list[Dispatch]:
    result = []
    for stretch in stretches_of(op, target, [source, goal]):
        wide = width(stretch.floats)
        sizes: dict[str, Constant] = {"P": stretch.floats}
        sizes.update(constants)
        result.append(
            Dispatch(
                [f"width_{wide}.wgsl", "average.wgsl"],
                op.kernel,
                [(source, stretch.tensors[source])] + bound(op, others),
                [(goal, stretch.tensors[goal])],
                sizes,
                flat_grid(stretch.floats // wide, target.device),
            )
        )
    return result


# weights += rates[counters[0] mod rows] (live - weights), of step number counters[0] + 1
declare(
    "average",
    "live rates counters -> weights+ | P rows",
    "live=P rates=rows counters:i32=4 weights=P",
    average,
)
# y = x
declare("copy", "x -> y | P", "x=P y=P", copy)
