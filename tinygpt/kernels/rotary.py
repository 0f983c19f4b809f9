"""Rotary positions: a query and a key, turned by their places, meet in a product that knows their distance only."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def rotary_table(*, position: Ints | None, angles: Floats, T: int, D: int, base: int) -> None:
    """angles [T,D]: cosines of t base^(-2i/D), i = 0 … D/2 - 1, then their sines; for t = 0 … T - 1, or for
    the places in position [T].

    Angles and their functions are taken in float64, whatever the table's dtype: t is large.
    """
    places = np.arange(T) if position is None else position
    radians = np.outer(places, float(base) ** (-np.arange(0, D, 2) / D))
    angles[...] = np.hstack([np.cos(radians), np.sin(radians)])


def rotary(*, qkv: Floats, angles: Floats, y: Floats, N: int, T: int, H: int, D: int, inverse: int) -> None:
    """qkv [N,3C] -> y [N,3C]: of each head of q and k the pairs (a, b) = (x_i, x_(i + D/2)) become

        a cos - b sin,  a sin + b cos

    A rotation's matrix has its transpose as its inverse. So the gradient by a pair is the gradient by what it became,
    turned back: dqkv comes from dy by the same kernel with `inverse` 1. There sin has the other sign.
    """
    half = D // 2
    cos, sin = np.split(angles[np.arange(N) % T][:, None], 2, axis=2)
    if inverse:
        sin = -sin
    turned, heads = y.reshape(N, 3 * H, D), qkv.reshape(N, 3 * H, D)
    turned[...] = heads
    a, b = heads[:, : 2 * H, :half], heads[:, : 2 * H, half:]
    turned[:, : 2 * H, :half] = a * cos - b * sin
    turned[:, : 2 * H, half:] = a * sin + b * cos
