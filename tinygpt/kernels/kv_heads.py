"""Grouped queries: heads of keys and values that several heads of queries share."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats


def kv_heads(*, x: Floats, y: Floats, N: int, H: int, G: int, D: int, W: int) -> None:
    """x [N,(H+2G)D] -> y [N,3HD]: each of G heads of keys, and of values, H / G times in a row."""
    q, shared = x[:, : H * D], x[:, H * D :].reshape(N, 2 * G, D)
    y[...] = np.hstack([q, np.repeat(shared, H // G, axis=1).reshape(N, -1)])


def kv_heads_backward(*, dy: Floats, dx: Floats, N: int, H: int, G: int, D: int, W: int) -> None:
    """dy [N,3HD] -> dx [N,(H+2G)D]: what was copied has the sum of its copies' gradients."""
    dq, copies = dy[:, : H * D], dy[:, H * D :].reshape(N, 2 * G, H // G, D)
    dx[...] = np.hstack([dq, copies.sum(axis=2).reshape(N, -1)])
