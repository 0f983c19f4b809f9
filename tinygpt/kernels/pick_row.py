"""One row of many: only the newest row's logits are needed to choose the next byte."""

from __future__ import annotations

from tinygpt.kernels.arrays import Floats, Ints


def pick_row(*, x: Floats, position: Ints, row: Ints, y: Floats, N: int, C: int, R: int = 1) -> None:
    """x [N,C], of text row[0] -> y [1,C], the row at its place in position [R]."""
    y[...] = x[position[row[0]]]
