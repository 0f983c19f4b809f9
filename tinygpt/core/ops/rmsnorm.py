"""Normalisation by the root mean square, row by row."""

from tinygpt.core.ops.gpu import Dispatch, Target, over_rows
from tinygpt.core.ops.layernorm import ROW_CHUNKS, norm_backward
from tinygpt.core.ops.op import Op, declare


def rmsnorm(op: Op, target: Target) -> list[Dispatch]:
    return [over_rows(op, target, "rmsnorm", "x gain", "y rstd", {"EPS": op.scalar("eps")})]


def rmsnorm_backward(op: Op, target: Target) -> list[Dispatch]:
    return norm_backward(op, target, "rstd", "dgain", {})


# y = x * rstd * gain with rstd = 1 / sqrt(mean(x^2) + eps)
declare("rmsnorm", "x gain -> y rstd | N C | eps", "x=N,C gain=C y=N,C rstd=N", rmsnorm)
# dx = dresidual + the gradient through the norm; dgain summed over rows, but of a norm that is frozen
declare(
    "rmsnorm_backward",
    "dy x gain rstd dresidual? -> dx dgain?+ | N C accumulate=0",
    "dy=N,C x=N,C gain=C rstd=N dresidual=N,C dx=N,C dgain=C",
    rmsnorm_backward,
    scratch=lambda op: ROW_CHUNKS * op.dim("C"),
)
