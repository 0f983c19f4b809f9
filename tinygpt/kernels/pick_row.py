"""One row of many: only the newest row's logits are needed to choose the next byte."""

from __future__ import annotations

from tinygpt.kernels.arrays import Floats, Ints


def pick_row(*, x: Floats, position: Ints, y: Floats, N: int, C: int) -> None:
    """x [N,C] -> y [1,C], its row position[0]."""
    y[...] = x[position[0]]
