"""Weights as whole numbers with a scale per row, where what they stand for is weight * scale; and in float16."""
# ruff: noqa: E741 (O and I are the outputs and inputs everywhere in this project)

from __future__ import annotations

import numpy as np

from tinygpt.core.ops.linear import RELU2
from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.embed import embed, embed_one
from tinygpt.kernels.linear import gelu, linear, linear_activation, squared_relu


def linear_int8(
    *,
    x: Floats,
    weight: Ints,
    weight_scales: Floats,
    bias: Floats | None,
    residual: Floats | None,
    y: Floats,
    N: int,
    O: int,
    I: int,
) -> None:
    """x [N,I], weight [O,I], scales [O], bias [O], residual [N,O] -> y [N,O]. The scale is behind the sum."""
    y[...] = (x @ weight.T.astype(x.dtype)) * weight_scales
    if bias is not None:
        y += bias
    if residual is not None:
        y += residual


def linear_activation_int8(
    *,
    x: Floats,
    weight: Ints,
    weight_scales: Floats,
    bias: Floats | None,
    residual: Floats | None,
    y: Floats,
    N: int,
    O: int,
    I: int,
    kind: int,
) -> None:
    """y = f(h) [N,O] with h as above and f of that `kind`."""
    h = np.empty_like(y)
    linear_int8(x=x, weight=weight, weight_scales=weight_scales, bias=bias, residual=residual, y=h, N=N, O=O, I=I)
    y[...] = (squared_relu if kind == RELU2 else gelu)(h)[0]


def embed_int8(
    *,
    tokens: Ints,
    wte: Ints,
    wte_scales: Floats,
    wpe: Ints | None,
    wpe_scales: Floats | None,
    x: Floats,
    N: int,
    T: int,
    C: int,
) -> None:
    """tokens [N], wte [V,C], wpe [T,C] or longer, a scale for each row of both -> x [N,C]."""
    position = np.arange(N) % T
    embed_one_int8(
        tokens=tokens, position=position, wte=wte, wte_scales=wte_scales, wpe=wpe, wpe_scales=wpe_scales, x=x, C=C, R=N
    )


def embed_one_int8(
    *,
    tokens: Ints,
    position: Ints,
    wte: Ints,
    wte_scales: Floats,
    wpe: Ints | None,
    wpe_scales: Floats | None,
    x: Floats,
    C: int,
    R: int = 1,
) -> None:
    """The newest token of each text alone: tokens [R], at places position [R] -> x [R,C]."""
    x[...] = wte[tokens] * wte_scales[tokens, None]
    if wpe is not None and wpe_scales is not None:
        x += wpe[position] * wpe_scales[position, None]


def unpack_int8(*, x: Ints, scales: Floats, y: Floats, N: int, C: int) -> None:
    """x [N,C], scales [N] -> y [N,C], each number rounded once."""
    y[...] = x * scales[:, None]


def linear_float16(
    *, x: Floats, weight: Floats, bias: Floats | None, residual: Floats | None, y: Floats, N: int, O: int, I: int
) -> None:
    linear(x=x, weight=weight.astype(x.dtype), bias=bias, residual=residual, y=y, N=N, O=O, I=I)


def linear_activation_float16(
    *,
    x: Floats,
    weight: Floats,
    bias: Floats | None,
    residual: Floats | None,
    y: Floats,
    N: int,
    O: int,
    I: int,
    kind: int,
) -> None:
    wide = weight.astype(x.dtype)
    linear_activation(x=x, weight=wide, bias=bias, residual=residual, y=y, slope=None, N=N, O=O, I=I, kind=kind)


def embed_float16(*, tokens: Ints, wte: Floats, wpe: Floats | None, x: Floats, N: int, T: int, C: int) -> None:
    embed(tokens=tokens, wte=wte.astype(x.dtype), wpe=wide_or_none(wpe, x), x=x, N=N, T=T, C=C)


def embed_one_float16(
    *, tokens: Ints, position: Ints, wte: Floats, wpe: Floats | None, x: Floats, C: int, R: int = 1
) -> None:
    wide = wte.astype(x.dtype)
    embed_one(tokens=tokens, position=position, wte=wide, wpe=wide_or_none(wpe, x), x=x, C=C, R=R)


def wide_or_none(table: Floats | None, x: Floats) -> Floats | None:
    return None if table is None else table.astype(x.dtype)


def unpack_float16(*, x: Floats, y: Floats, N: int, C: int) -> None:
    """Exactly."""
    y[...] = x
