"""Dropout: numbers set to 0 at random, the others grown to make up for it."""

from __future__ import annotations

from tinygpt.core.rng import DROPOUT
from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.philox import philox_words


def dropout(
    *,
    x: Floats,
    counters: Ints,
    residual: Floats | None,
    y: Floats,
    N: int,
    C: int,
    seed: int,
    site: int,
    rate: float,
) -> None:
    """x [N,C], counters [4] (step, batch of the step), residual [N,C] -> y [N,C].

    y = x mask / (1 - rate), which is x on average, with a mask that is a pure function of the seed, the counters and
    the site; so dx = dy mask / (1 - rate) is this very kernel on dy, and the mask need not be kept.
    """
    words = philox_words((seed, DROPOUT), 0, (N * C + 3) // 4, int(counters[0]), site, int(counters[1]))
    mask = words.reshape(-1)[: N * C].reshape(N, C) >= int(rate * 2**32)
    y[...] = x * (mask / (1 - rate)).astype(x.dtype)
    if residual is not None:
        y += residual
