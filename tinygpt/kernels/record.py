"""Keeping count of steps, and of their losses and norms until someone reads them."""

from __future__ import annotations

from tinygpt.kernels.arrays import Floats, Ints


def record(*, loss: Floats, norm: Floats, ring: Floats, counters: Ints, rows: int) -> None:
    """loss [1], norm [2] -> ring [rows,2] at the row of the step under way; counters [4]: it is done."""
    ring[counters[0] % rows] = loss[0], norm[0]
    counters[0] += 1
    counters[1] = 0


def count(*, counters: Ints, which: int) -> None:
    """counters[which] is one more."""
    counters[which] += 1
