"""Soft-capped logits: left as they are where they are small, and never beyond a cap."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def softcap(*, x: Floats, y: Floats, N: int, V: int, cap: float) -> None:
    """x [N,V] -> y [N,V] = cap tanh(x / cap)."""
    y[...] = cap * np.tanh(x / cap)


def softcap_backward(*, dy: Floats, x: Floats, dx: Floats, N: int, V: int, cap: float) -> None:
    """dy [N,V] -> dx [N,V].

    tanh'(z) = 1 - tanh(z)^2 = 4 e / (1 + e)^2 with e = exp(-2 |z|), without that difference's cancellation.
    """
    e = np.exp(-2 * np.abs(x / cap))
    dx[...] = dy * (4 * e / np.square(1 + e))
