"""Layer normalisation, row by row."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, ceil_div, dims, flag, row_grid, row_lanes, texts, width
from tinygpt.core.ops.op import Op, declare, shared

ROW_CHUNKS = shared("ROW_CHUNKS", 64)  # the CPU's sums over rows are cut into so many, whatever the number of threads


def layernorm(op: Op, target: Target) -> list[Dispatch]:
    N, C, wide, device = op.dim("N"), op.dim("C"), width(op.dim("C")), target.device
    constants = dims(op, "N C")
    constants["HAS_BIAS"] = flag(op.tensor("bias"))
    constants["EPS"] = op.scalar("eps")
    constants["LANES"] = lanes = row_lanes(N, C // wide, device)
    return [
        Dispatch(
            texts("layernorm", wide, device),
            "layernorm",
            bound(op, "x gain bias"),
            bound(op, "y mean rstd"),
            constants,
            row_grid(N, lanes, device),
        )
    ]


def layernorm_backward(op: Op, target: Target) -> list[Dispatch]:
    """All tensors at once would be one more than the eight that a kernel may have."""
    N, C, wide, device = op.dim("N"), op.dim("C"), width(op.dim("C")), target.device
    files = texts("layernorm_backward", wide, device, sliced=True)
    of_rows = dims(op, "N C")
    of_rows["HAS_DRESIDUAL"] = flag(op.tensor("dresidual"))
    of_rows["LANES"] = lanes = row_lanes(N, C // wide, device)
    of_columns = dims(op, "N C accumulate")
    of_columns["HAS_DBIAS"] = flag(op.tensor("dbias"))
    of_columns["SLICES"] = target.slices
    return [
        Dispatch(
            files,
            "layernorm_backward_rows",
            bound(op, "dy x mean rstd gain dresidual"),
            bound(op, "dx"),
            of_rows,
            row_grid(N, lanes, device),
        ),
        Dispatch(
            files,
            "layernorm_backward_columns",
            bound(op, "dy x mean rstd"),
            bound(op, "dgain dbias"),
            of_columns,
            (ceil_div(C // wide, 4), target.slices, 1),
        ),
    ]


# y = (x - mean) * rstd * gain (+ bias)
declare(
    "layernorm",
    "x gain bias? -> y mean rstd | N C | eps",
    "x=N,C gain=C bias=C y=N,C mean=N rstd=N",
    layernorm,
)
# dx = dresidual + the gradient through the norm; dgain, dbias summed over rows
declare(
    "layernorm_backward",
    "dy x gain mean rstd dresidual? -> dx dgain+ dbias?+ | N C accumulate",
    "dy=N,C x=N,C gain=C mean=N rstd=N dresidual=N,C dx=N,C dgain=C dbias=C",
    layernorm_backward,
    scratch=lambda op: 2 * ROW_CHUNKS * op.dim("C"),
)
