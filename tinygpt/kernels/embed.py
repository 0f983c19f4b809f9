"""Tokens to vectors: a row of the token table, plus a row of the position table where there is one."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def embed(*, tokens: Ints, wte: Floats, wpe: Floats | None, x: Floats, N: int, T: int, C: int) -> None:
    """x[n] = wte[tokens[n]] + wpe[n mod T]; tokens [N], wte [V,C], wpe [T,C] -> x [N,C]."""
    x[...] = wte[tokens]
    if wpe is not None:
        x += wpe[np.arange(N) % T]


def embed_backward(
    *,
    tokens: Ints,
    dx: Floats,
    dwte: Floats,
    dwpe: Floats | None,
    N: int,
    T: int,
    V: int,
    C: int,
    accumulate: int = 0,
    tied: int,
) -> None:
    """dx [N,C] -> dwte [V,C], dwpe [T,C].

    A table's row reaches the loss through every x[n] it was copied to, so its gradient is the sum of
    those dx[n]. Where the output head is tied to wte, it has put its own gradient into dwte already.
    """
    if not (accumulate or tied):
        dwte[...] = 0
    np.add.at(dwte, tokens, dx)  # unlike dwte[tokens] += dx, this counts a repeated token every time
    if dwpe is not None:
        if not accumulate:
            dwpe[...] = 0
        np.add.at(dwpe, np.arange(N) % T, dx)


def embed_one(*, tokens: Ints, position: Ints, wte: Floats, wpe: Floats | None, x: Floats, C: int, R: int = 1) -> None:
    """The newest token of each text alone: tokens [R], at places position [R] -> x [R,C]."""
    x[...] = wte[tokens]
    if wpe is not None:
        x += wpe[position]
