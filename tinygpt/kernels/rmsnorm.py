"""Normalisation by the root mean square: each row to a mean square of 1, then a learned gain."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def rmsnorm(*, x: Floats, gain: Floats, y: Floats, rstd: Floats, N: int, C: int, eps: float) -> None:
    """x [N,C], gain [C] -> y [N,C], and rstd [N], kept for the backward pass."""
    rstd[...] = 1 / np.sqrt(np.square(x).mean(axis=1) + eps)
    y[...] = x * rstd[:, None] * gain


def rmsnorm_backward(
    *,
    dy: Floats,
    x: Floats,
    gain: Floats,
    rstd: Floats,
    dresidual: Floats | None,
    dx: Floats,
    dgain: Floats | None,
    N: int,
    C: int,
    accumulate: int = 0,
) -> None:
    """With n = x rstd, y = n gain:

        dgain = sum over rows of dy n        dn = dy gain

    Within a row n_j depends on every x_i: through x_j itself and through rstd, where
    d rstd/dx_i = -rstd^2 n_i / C. So dn_j/dx_i = rstd ([i=j] - n_i n_j / C), and

        dx_i = sum_j dn_j dn_j/dx_i = rstd (dn_i - n_i mean(dn n))

    The norm's input also goes on along the residual stream, whose gradient `dresidual` joins in.
    """
    n = x * rstd[:, None]
    dn = dy * gain
    through_norm = rstd[:, None] * (dn - n * (dn * n).mean(axis=1, keepdims=True))
    dx[...] = through_norm if dresidual is None else dresidual + through_norm
    if dgain is not None:
        dgain[...] = (dgain if accumulate else 0) + (dy * n).sum(axis=0)
