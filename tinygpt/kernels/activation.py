"""What stands between an MLP's two linear maps: the exact GELU, or the square of a ReLU."""

from __future__ import annotations

from tinygpt.core.ops.linear import RELU2
from tinygpt.kernels.arrays import Floats
from tinygpt.kernels.linear import gelu, squared_relu


def activation(*, x: Floats, y: Floats, N: int, F: int, kind: int) -> None:
    """x [N,F] -> y [N,F] = f(x)."""
    y[...] = (squared_relu if kind == RELU2 else gelu)(x)[0]


def activation_backward(*, dy: Floats, x: Floats, dx: Floats, N: int, F: int, kind: int) -> None:
    """dy [N,F] -> dx [N,F] = dy f'(x)."""
    dx[...] = dy * (squared_relu if kind == RELU2 else gelu)(x)[1]
