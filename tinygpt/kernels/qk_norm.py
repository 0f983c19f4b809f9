"""Queries and keys of every head to a mean square of 1, without a gain; values as they are."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def qk_norm(*, qkv: Floats, y: Floats, rstd: Floats, N: int, H: int, D: int, eps: float) -> None:
    """qkv [N,3C] -> y [N,3C], and rstd [N,2H], kept for the backward pass."""
    heads = qkv.reshape(N, 3 * H, D)
    rstd[...] = 1 / np.sqrt(np.square(heads[:, : 2 * H]).mean(axis=2) + eps)
    y[...] = qkv
    y.reshape(N, 3 * H, D)[:, : 2 * H] *= rstd[:, :, None]


def qk_norm_backward(*, dy: Floats, y: Floats, rstd: Floats, dqkv: Floats, N: int, H: int, D: int) -> None:
    """dy [N,3C] -> dqkv [N,3C]. As in rmsnorm, with a gain of 1 and rows of D numbers:

    dx_i = rstd (dy_i - y_i mean(dy y))
    """
    normal, dnormal = (array.reshape(N, 3 * H, D)[:, : 2 * H] for array in (y, dy))
    through_rstd = normal * (dnormal * normal).mean(axis=2, keepdims=True)
    dqkv[...] = dy
    dqkv.reshape(N, 3 * H, D)[:, : 2 * H] = rstd[:, :, None] * (dnormal - through_rstd)
