"""Normalisation by the root mean square, row by row."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, ceil_div, dims, flag, row_grid, row_lanes, texts, width
from tinygpt.core.ops.layernorm import ROW_CHUNKS
from tinygpt.core.ops.op import Op, declare


def rmsnorm(op: Op, target: Target) -> list[Dispatch]:
    N, C, wide, device = op.dim("N"), op.dim("C"), width(op.dim("C")), target.device
    constants = dims(op, "N C")
    constants["EPS"] = op.scalar("eps")
    constants["LANES"] = lanes = row_lanes(N, C // wide, device)
    return [
        Dispatch(
            texts("rmsnorm", wide, device),
            "rmsnorm",
            bound(op, "x gain"),
            bound(op, "y rstd"),
            constants,
            row_grid(N, lanes, device),
        )
    ]


def rmsnorm_backward(op: Op, target: Target) -> list[Dispatch]:
    N, C, wide, device = op.dim("N"), op.dim("C"), width(op.dim("C")), target.device
    files = texts("rmsnorm_backward", wide, device, sliced=True)
    of_rows = dims(op, "N C")
    of_rows["HAS_DRESIDUAL"] = flag(op.tensor("dresidual"))
    of_rows["LANES"] = lanes = row_lanes(N, C // wide, device)
    of_columns = dims(op, "N C accumulate")
    of_columns["SLICES"] = target.slices
    return [
        Dispatch(
            files,
            "rmsnorm_backward_rows",
            bound(op, "dy x rstd gain dresidual"),
            bound(op, "dx"),
            of_rows,
            row_grid(N, lanes, device),
        ),
        Dispatch(
            files,
            "rmsnorm_backward_columns",
            bound(op, "dy x rstd"),
            bound(op, "dgain"),
            of_columns,
            (ceil_div(C // wide, 4), target.slices, 1),
        ),
    ]


# y = x * rstd * gain with rstd = 1 / sqrt(mean(x^2) + eps)
declare("rmsnorm", "x gain -> y rstd | N C | eps", "x=N,C gain=C y=N,C rstd=N", rmsnorm)
# dx = dresidual + the gradient through the norm; dgain summed over rows
declare(
    "rmsnorm_backward",
    "dy x gain rstd dresidual? -> dx dgain+ | N C accumulate",
    "dy=N,C x=N,C gain=C rstd=N dresidual=N,C dx=N,C dgain=C",
    rmsnorm_backward,
    scratch=lambda op: ROW_CHUNKS * op.dim("C"),
)
