"""The gated MLP's activation: one half of the columns, through SiLU, is the gate of the other half."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def sigmoid(g: Floats) -> Floats:
    """1 / (1 + exp(-g)), from the exp that does not overflow."""
    small = np.exp(-np.abs(g))
    value: Floats = np.where(g < 0, small, 1) / (1 + small)
    return value


def swiglu(*, gate_up: Floats, y: Floats, N: int, F: int) -> None:
    """gate_up [N,2F] -> y [N,F] = silu(gate) up, with silu(g) = g sigmoid(g)."""
    gate, up = gate_up[:, :F], gate_up[:, F:]
    y[...] = gate * sigmoid(gate) * up


def swiglu_backward(*, dy: Floats, gate_up: Floats, dgate_up: Floats, N: int, F: int) -> None:
    """dy [N,F] -> dgate_up [N,2F].

    dup = dy silu(gate). With s = sigmoid(g), s' = s (1 - s), where 1 - s = sigmoid(-g) without that difference's
    cancellation; so silu'(g) = s + g s (1 - s), and dgate = dy up silu'(gate).
    """
    gate, up = gate_up[:, :F], gate_up[:, F:]
    s, rest = sigmoid(gate), sigmoid(-gate)
    dgate_up[:, :F] = dy * up * (s + gate * s * rest)
    dgate_up[:, F:] = dy * (gate * s)
