"""Linear maps, with what stands right behind them: bias, residual, activation. A weight is [out, in]."""
# ruff: noqa: E741 (O and I are the outputs and inputs everywhere in this project)

from __future__ import annotations

import math

import numpy as np

from tinygpt.core.ops.linear import RELU2
from tinygpt.kernels.arrays import Floats

erfc = np.vectorize(math.erfc, otypes=[np.float64])  # the C library's: right to about one float64 ulp


def normal_cdf(h: Floats) -> Floats:
    """The share of a standard normal below h: (1 + erf(h / sqrt 2)) / 2, without that sum's cancellation."""
    cdf: Floats = 0.5 * erfc(-h / math.sqrt(2))
    return cdf.astype(h.dtype)


def normal_density(h: Floats) -> Floats:
    return np.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)


def linear(
    *,
    x: Floats,
    weight: Floats,
    bias: Floats | None,
    residual: Floats | None,
    y: Floats,
    N: int,
    O: int,
    I: int,
    accumulate: int = 0,
    scale: float = 1,
) -> None:
    """x [N,I], weight [O,I], bias [O], residual [N,O] -> y [N,O], which may be a slice of a wider matrix's columns."""
    product = scale * (x @ weight.T)
    if bias is not None:
        product = product + bias
    if residual is not None:
        product = product + residual
    y[...] = (y if accumulate else 0) + product


def gelu(h: Floats) -> tuple[Floats, Floats]:
    """h cdf(h), and by the product rule its slope cdf(h) + h density(h)."""
    return h * normal_cdf(h), normal_cdf(h) + h * normal_density(h)


def squared_relu(h: Floats) -> tuple[Floats, Floats]:
    """max(h, 0)^2, and its slope 2 max(h, 0)."""
    above = np.maximum(h, 0)
    return above * above, 2 * above


def linear_activation(
    *,
    x: Floats,
    weight: Floats,
    bias: Floats | None,
    residual: Floats | None,
    y: Floats,
    slope: Floats | None,
    N: int,
    O: int,
    I: int,
    kind: int,
) -> None:
    """y = f(h) [N,O] with h = x weight^T + bias + residual and f of that `kind`, and slope = f'(h) [N,O]."""
    h = x @ weight.T if bias is None else x @ weight.T + bias
    if residual is not None:
        h = h + residual
    value, derivative = (squared_relu if kind == RELU2 else gelu)(h)
    y[...] = value
    if slope is not None:
        slope[...] = derivative


def linear_backward_input(
    *,
    dy: Floats,
    weight: Floats,
    slope: Floats | None,
    dx: Floats,
    N: int,
    O: int,
    I: int,
    accumulate: int = 0,
    scale: float = 1,
) -> None:
    """y_o = scale sum_i weight_oi x_i, so dx_i = scale sum_o dy_o weight_oi: dy [N,O], weight [O,I] -> dx [N,I].

    Where x itself was f(h), `slope` = f'(h) [N,I] carries the gradient on to h: dh = dx slope.
    """
    product = scale * (dy @ weight)
    dx[...] = (dx if accumulate else 0) + (product if slope is None else product * slope)


def linear_backward_weight(
    *, dy: Floats, x: Floats, dweight: Floats, dbias: Floats | None, N: int, O: int, I: int, accumulate: int = 0
) -> None:
    """Every row n adds dy[n,o] x[n,i] to dweight[o,i] and dy[n,o] to dbias[o]."""
    dweight[...] = (dweight if accumulate else 0) + dy.T @ x
    if dbias is not None:
        dbias[...] = (dbias if accumulate else 0) + dy.sum(axis=0)
