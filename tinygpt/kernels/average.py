"""A running average of the weights."""

from __future__ import annotations

from tinygpt.kernels.arrays import Floats, Ints


def average(*, live: Floats, rates: Floats, counters: Ints, weights: Floats, P: int, rows: int) -> None:
    """weights and live [P]; rates [rows], where counters [4] say which: counters[0] steps are done."""
    weights += rates[counters[0] % rows] * (live - weights)


def copy(*, x: Floats, y: Floats, P: int) -> None:
    """x and y [P]"""
    y[...] = x
