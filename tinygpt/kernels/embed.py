"""Tokens to vectors: a row of the token table plus a row of the position table."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def embed(*, tokens: Ints, wte: Floats, wpe: Floats, x: Floats, N: int, T: int, C: int) -> None:
    """x[n] = wte[tokens[n]] + wpe[n mod T]; tokens [N], wte [V,C], wpe [T,C] -> x [N,C]."""
    x[...] = wte[tokens] + wpe[np.arange(N) % T]


def embed_backward(
    *, tokens: Ints, dx: Floats, dwte: Floats, dwpe: Floats, N: int, T: int, C: int, accumulate: int
) -> None:
    """dx [N,C] -> dwte [V,C], dwpe [T,C].

    A table's row reaches the loss through every x[n] it was copied to, so its gradient is the sum of
    those dx[n]. dwte is always added to: the tied output head has put its own gradient there already.
    """
    np.add.at(dwte, tokens, dx)  # unlike dwte[tokens] += dx, this counts a repeated token every time
    if not accumulate:
        dwpe[...] = 0
    np.add.at(dwpe, np.arange(N) % T, dx)


def embed_one(*, tokens: Ints, position: Ints, wte: Floats, wpe: Floats, x: Floats, C: int) -> None:
    """The newest token alone: tokens [1], at row position[0] of the sequence -> x [1,C]."""
    x[...] = wte[tokens[0]] + wpe[position[0]]
