"""Layer normalisation: each row to mean 0 and variance 1, then a learned gain and, where there is one, a bias."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def layernorm(
    *,
    x: Floats,
    gain: Floats,
    bias: Floats | None,
    y: Floats,
    stats: Floats,
    N: int,
    C: int,
    eps: float,
) -> None:
    """x [N,C], gain and bias [C] -> y [N,C], and stats [N,2], each row's mean and rstd, kept for the backward pass."""
    stats[:, 0] = x.mean(axis=1)
    stats[:, 1] = 1 / np.sqrt(x.var(axis=1) + eps)
    n = (x - stats[:, :1]) * stats[:, 1:]
    y[...] = n * gain if bias is None else n * gain + bias


def layernorm_backward(
    *,
    dy: Floats,
    x: Floats,
    gain: Floats,
    stats: Floats,
    dresidual: Floats | None,
    dx: Floats,
    dgain: Floats | None,
    dbias: Floats | None,
    N: int,
    C: int,
    accumulate: int = 0,
) -> None:
    """With n = (x - mean) rstd, y = n gain + bias:

        dbias = sum over rows of dy        dgain = sum over rows of dy n        dn = dy gain

    Within a row n_j depends on every x_i: through x_j itself, through the mean, and through rstd,
    where d mean/dx_i = 1/C and d rstd/dx_i = -rstd^2 n_i / C. So dn_j/dx_i = rstd ([i=j] - 1/C - n_i n_j / C), and

        dx_i = sum_j dn_j dn_j/dx_i = rstd (dn_i - mean(dn) - n_i mean(dn n))

    The norm's input also goes on along the residual stream, whose gradient `dresidual` joins in.
    """
    mean, rstd = stats[:, :1], stats[:, 1:]
    n = (x - mean) * rstd
    dn = dy * gain
    through_mean = dn.mean(axis=1, keepdims=True)
    through_rstd = n * (dn * n).mean(axis=1, keepdims=True)
    through_norm = rstd * (dn - through_mean - through_rstd)
    dx[...] = through_norm if dresidual is None else dresidual + through_norm
    if dgain is not None:
        dgain[...] = (dgain if accumulate else 0) + (dy * n).sum(axis=0)
    if dbias is not None:
        dbias[...] = (dbias if accumulate else 0) + dy.sum(axis=0)
