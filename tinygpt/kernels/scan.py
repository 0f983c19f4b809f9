"""A gated recurrence along a window: a row keeps a share of what the rows before it left, and takes in its own value.

The gate decides the share, column by column, from the row alone: that is what makes this recurrence (a minimal GRU) a
scan, whose gates and values are computed for all rows at once by linear maps.
"""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.swiglu import sigmoid


def scan(*, gate: Floats, value: Floats, y: Floats, B: int, T: int, C: int) -> None:
    """gate, value [B T,C] -> y [B T,C]: y_t = (1 - z_t) y_(t-1) + z_t value_t, z = sigmoid(gate), y_(-1) = 0.

    1 - z is sigmoid(-gate), without that difference's cancellation.
    """
    z, rest, v, out = (x.reshape(B, T, C) for x in (sigmoid(gate), sigmoid(-gate), value, y))
    state = np.zeros((B, C), y.dtype)
    for t in range(T):
        state = out[:, t] = rest[:, t] * state + z[:, t] * v[:, t]


def scan_backward(
    *, dy: Floats, gate: Floats, value: Floats, y: Floats, dgate: Floats, dvalue: Floats, B: int, T: int, C: int
) -> None:
    """dy [B T,C] -> dgate, dvalue [B T,C], from the last row to the first.

    A row's output counts for itself and for all later ones: d_t = dy_t + (1 - z_(t+1)) d_(t+1). So
    dvalue_t = z_t d_t and, as z' = z (1 - z), dgate_t = (value_t - y_(t-1)) z_t (1 - z_t) d_t.
    """
    z, rest, v, out, d_out = (x.reshape(B, T, C) for x in (sigmoid(gate), sigmoid(-gate), value, y, dy))
    d_gate, d_value = dgate.reshape(B, T, C), dvalue.reshape(B, T, C)
    passed = np.zeros((B, C), dy.dtype)
    for t in reversed(range(T)):
        d = d_out[:, t] + passed
        before = out[:, t - 1] if t else np.zeros((B, C), y.dtype)
        d_value[:, t] = z[:, t] * d
        d_gate[:, t] = (v[:, t] - before) * z[:, t] * rest[:, t] * d
        passed = rest[:, t] * d


def scan_one(*, gate: Floats, value: Floats, state: Floats, y: Floats, C: int, R: int = 1) -> None:
    """One row [R,C] more of each text, whose rows so far have left `state` [R,C]."""
    y[...] = sigmoid(-gate) * state + sigmoid(gate) * value


def scan_keep(*, x: Floats, position: Ints | None, row: Ints | None, state: Floats, N: int, C: int, R: int = 1) -> None:
    """state [R,C] = x; or of the text row[0] alone, the row of x [N,C] at its place in position [R]."""
    if row is None or position is None:
        state[...] = x
    else:
        state[row[0]] = x[position[row[0]]]
