"""Layer normalisation, row by row."""

from tinygpt.core.ops.gpu import GROUP, Dispatch, Target, ceil_div, dims, flag, line_grid, over_rows, width
from tinygpt.core.ops.op import Op, declare, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

ROW_CHUNKS = shared("ROW_CHUNKS", 64)  # the CPU's sums over rows are cut into so many, whatever the number of threads
COLUMN_WORDS = 4  # words of a row whose sums over rows a workgroup makes


def layernorm(op: Op, target: Target) -> list[Dispatch]:
    constants = {"HAS_BIAS": flag(op.tensor("bias")), "EPS": op.scalar("eps")}
    return [over_rows(op, target, "layernorm", "x gain bias", "y stats", constants)]


def layernorm_backward(op: Op, target: Target) -> list[Dispatch]:
    return norm_backward(op, target, "stats", "dgain dbias", {"HAS_DBIAS": flag(op.tensor("dbias"))})


def norm_backward(op: Op, target: Target, kept: str, sums: str, constants: "dict[str, Constant]") -> list[Dispatch]:
    """One dispatch, with workgroups for the sums over rows by tiles of columns, where anyone wants them, and others for
    rows of dx."""
    constants.update(dims(op, "accumulate"))
    constants["HAS_DRESIDUAL"] = flag(op.tensor("dresidual"))
    constants["SLICES"] = target.slices
    reads, writes = f"dy x {kept} gain dresidual", f"dx {sums}"
    tiles = ceil_div(op.dim("C") // width(op.dim("C")), COLUMN_WORDS) * target.slices
    constants["SUM_GROUPS"] = sums_first = tiles * flag(op.tensor("dgain"))
    made = over_rows(op, target, op.kernel, reads, writes, constants, sliced=True)
    rows = ceil_div(op.dim("N") * int(made.constants["LANES"]), GROUP)
    made.grid = line_grid(sums_first + rows, target.device)
    return [made]


# y = (x - mean) * rstd * gain (+ bias);  stats: each row's mean and rstd
declare(
    "layernorm",
    "x gain bias? -> y stats | N C | eps",
    "x=N,C gain=C bias=C y=N,C stats=N,2",
    layernorm,
)
# dx = dresidual + the gradient through the norm; dgain, dbias summed over rows, neither of a norm that is frozen
declare(
    "layernorm_backward",
    "dy x gain stats dresidual? -> dx dgain?+ dbias?+ | N C accumulate=0",
    "dy=N,C x=N,C gain=C stats=N,2 dresidual=N,C dx=N,C dgain=C dbias=C",
    layernorm_backward,
    scratch=lambda op: 2 * ROW_CHUNKS * op.dim("C"),
)
