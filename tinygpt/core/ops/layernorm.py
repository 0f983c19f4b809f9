"""Layer normalisation, row by row."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, ceil_div, dims, flag, over_rows, width
from tinygpt.core.ops.op import Op, declare, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

ROW_CHUNKS = shared("ROW_CHUNKS", 64)  # the CPU's sums over rows are cut into so many, whatever the number of threads


def layernorm(op: Op, target: Target) -> list[Dispatch]:
    constants = {"HAS_BIAS": flag(op.tensor("bias")), "EPS": op.scalar("eps")}
    return [over_rows(op, target, "layernorm", "x gain bias", "y mean rstd", constants)]


def layernorm_backward(op: Op, target: Target) -> list[Dispatch]:
    return norm_backward(op, target, "mean rstd", "dgain dbias", {"HAS_DBIAS": flag(op.tensor("dbias"))})


def norm_backward(op: Op, target: Target, kept: str, sums: str, of_columns: "dict[str, Constant]") -> list[Dispatch]:
    """dx by rows, then the `sums` over rows by columns, where anyone wants them: all tensors at once would be more than
    the eight that a kernel may have."""
    of_rows: dict[str, Constant] = {"HAS_DRESIDUAL": flag(op.tensor("dresidual"))}
    reads = f"dy x {kept} gain dresidual"
    rows = over_rows(op, target, op.kernel + "_rows", reads, "dx", of_rows, sliced=True)
    if op.tensor("dgain") is None:
        return [rows]
    wide = width(op.dim("C"))
    of_columns.update(dims(op, "N C accumulate"))
    of_columns["SLICES"] = target.slices
    grid = (ceil_div(op.dim("C") // wide, 4), target.slices, 1)
    columns = Dispatch(rows.files, op.kernel + "_columns", bound(op, f"dy x {kept}"), bound(op, sums), of_columns, grid)
    return [rows, columns]


# y = (x - mean) * rstd * gain (+ bias)
declare(
    "layernorm",
    "x gain bias? -> y mean rstd | N C | eps",
    "x=N,C gain=C bias=C y=N,C mean=N rstd=N",
    layernorm,
)
# dx = dresidual + the gradient through the norm; dgain, dbias summed over rows, neither of a norm that is frozen
declare(
    "layernorm_backward",
    "dy x gain mean rstd dresidual? -> dx dgain?+ dbias?+ | N C accumulate",
    "dy=N,C x=N,C gain=C mean=N rstd=N dresidual=N,C dx=N,C dgain=C dbias=C",
    layernorm_backward,
    scratch=lambda op: 2 * ROW_CHUNKS * op.dim("C"),
)
