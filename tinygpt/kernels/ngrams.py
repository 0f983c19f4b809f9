"""N-gram tables: rows of learned numbers, picked by the last n bytes; and the row-sparse optimizer of such tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinygpt.core.ops.ngrams import tables_of
from tinygpt.kernels.arrays import Floats, Ints

Words = npt.NDArray[np.uint64]

FNV_PRIME = 16777619
WORD = np.uint64(2**32 - 1)


def rows_of(last: list[Words], E: int) -> Words:
    """The row of a table of E rows, a power of two, that bytes pick, each given as an array, the oldest first."""
    number = np.zeros_like(last[0])
    if 256 ** len(last) <= E:
        for byte in last:
            number = 256 * number + byte
        return number
    number = number + np.uint64(len(last))
    for byte in last:
        number = (number ^ byte) * np.uint64(FNV_PRIME) & WORD
    return np.asarray(mixed(number) % np.uint64(E))


def mixed(word: Words) -> Words:
    """core/rng.py's hash, of arrays."""
    word = word * np.uint64(0x9E3779B1) & WORD
    word = (word ^ word >> np.uint64(15)) * np.uint64(0x85EBCA77) & WORD
    return word ^ word >> np.uint64(13)


def picked_rows(windows: Ints, E: int, orders: int) -> Ints:
    """[B,T,G]: the rows that each byte of windows [B,T] and those before it pick, -1 where there are too few."""
    T, tables = windows.shape[1], tables_of(orders)
    rows = np.full(windows.shape + (len(tables),), -1)
    for g, n in enumerate(tables):
        last = [windows[:, back : max(back, T - n + 1 + back)].astype(np.uint64) for back in range(n)]
        rows[:, n - 1 :, g] = E * g + rows_of(last, E).astype(np.int64)
    return rows


def ngram_embed(
    *, tokens: Ints, table: Floats, y: Floats, rows: Ints, N: int, T: int, G: int, E: int, W: int, orders: int
) -> None:
    """tokens [N], windows of T; table [G*E,W] -> y [N,G*W], rows [N,G]."""
    rows[...] = picked_rows(tokens.reshape(-1, T), E, orders).reshape(N, G)
    looked_up(table, rows, y)


def looked_up(table: Floats, rows: Ints, y: Floats) -> None:
    y[...] = np.where(rows[:, :, None] < 0, 0, table[rows]).reshape(y.shape)


def ngram_embed_one(
    *,
    tokens: Ints,
    position: Ints,
    recent: Ints,
    table: Floats,
    y: Floats,
    G: int,
    E: int,
    W: int,
    orders: int,
    R: int = 1,
) -> None:
    """The newest token of each text alone: tokens [R], at places position [R], behind the bytes recent [R,8]."""
    rows = np.full((R, G), -1)
    last = [tokens.astype(np.uint64)] + list(recent.T.astype(np.uint64))
    for g, n in enumerate(tables_of(orders)):
        rows[:, g] = np.where(position + 1 >= n, E * g + rows_of(last[:n][::-1], E).astype(np.int64), -1)
    looked_up(table, rows, y)


def ngram_keep(*, tokens: Ints, position: Ints, row: Ints | None, recent: Ints, N: int, R: int) -> None:
    """recent [R,8] is the bytes before the next one of each text, the last first."""
    if row is None:
        recent[:, 1:] = recent[:, :-1].copy()
        recent[:, 0] = tokens
        return
    (text,) = row
    last = tokens[: position[text] + 1][::-1][: recent.shape[1]]
    recent[text, : len(last)] = last


def ngram_collect(
    *,
    rows: Ints,
    dy: Floats,
    counters: Ints,
    all_rows: Ints,
    all_dy: Floats,
    N: int,
    G: int,
    W: int,
    parts: int,
) -> None:
    here = slice(counters[1] * N, (counters[1] + 1) * N)
    all_rows[here], all_dy[here] = rows, dy


def adagrad_rows(
    *,
    rows: Ints,
    dy: Floats,
    rates: Floats,
    counters: Ints,
    table: Floats,
    squares: Floats,
    N: int,
    G: int,
    E: int,
    W: int,
    ring: int,
    eps: float,
) -> None:
    """rows [N,G] picked table [G*E,W] for what has the gradient dy [N,G*W].

    A row reaches the loss through every place that it was copied to, so its gradient is the sum over them. AdaGrad
    divides by the root of all squares so far: of the row as a whole, which takes one number instead of W.
    """
    lr = rates[counters[0] % ring]
    touched, of_entry = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(touched), W), dy.dtype)
    np.add.at(sums, of_entry.reshape(-1), dy.reshape(-1, W))
    sums, touched = sums[touched >= 0], touched[touched >= 0]
    squares[touched] += np.square(sums).mean(axis=1)
    table[touched] -= lr * sums / (np.sqrt(squares[touched])[:, None] + dy.dtype.type(eps))
