"""N-gram tables of a .tinygpt file, as NumPy has them: core/file/tables.py says where each byte is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.tables import bitmap_bytes, row_bytes
from tinygpt.core.models.memory import TABLES, table_shape
from tinygpt.engines.base import FloatArray, State, Tables

Take = Callable[[int], npt.NDArray[np.uint8]]  # so many bytes of the file
Scaled = Callable[[FloatArray], tuple[FloatArray, npt.NDArray[np.int8]]]
Halved = Callable[[str, FloatArray], npt.NDArray[np.float16]]


def tables_of(state: State, model: ModelConfig) -> Tables:
    """Those of a state, zeros where it has none."""
    if state.tables is not None:
        return state.tables
    return Tables(np.zeros(table_shape(model), np.float32), np.zeros(table_shape(model)[0], np.float32))


def is_stored(tables: Tables) -> npt.NDArray[np.bool_]:
    """Whether there is anything to keep of each row."""
    stored: npt.NDArray[np.bool_] = (tables.rows != 0).any(axis=1)
    return stored if tables.squares is None else stored | (tables.squares != 0)


def table_parts(
    tables: Tables, dtype: str, has_optimizer: bool, scaled: Scaled, halved: Halved
) -> Iterator[npt.NDArray[Any]]:
    """Their bytes in a file, one after the other."""
    stored = is_stored(tables)
    bits = np.packbits(stored, bitorder="little")
    yield np.pad(bits, (0, -bits.size % 4))
    rows = np.ascontiguousarray(tables.rows[stored], "<f4")
    if dtype == "int8":
        yield from scaled(rows)
    else:
        yield halved(TABLES, rows) if dtype == "float16" else rows
    if has_optimizer:
        squares = np.zeros(len(tables.rows), np.float32) if tables.squares is None else tables.squares
        yield np.ascontiguousarray(squares[stored], "<f4")


def read_tables(model: ModelConfig, dtype: str, count: int, has_optimizer: bool, take: Take) -> Tables:
    shape = table_shape(model)
    stored = np.unpackbits(take(bitmap_bytes(model)), bitorder="little")[: shape[0]].astype(bool)
    if stored.sum() != count:
        raise TinyGPTError(f"the header promises {count:,} rows of n-gram tables, but {stored.sum():,} are marked")
    rows = np.zeros(shape, "<f4")
    given = take(count * row_bytes(model, dtype))
    if dtype == "int8":
        scales, values = given[: 4 * count].view("<f4"), given[4 * count :].view(np.int8)
        rows[stored] = values.reshape(count, shape[1]) * scales[:, None]
    else:
        rows[stored] = given.view("<f4" if dtype == "float32" else "<f2").reshape(count, shape[1])
    if not has_optimizer:
        return Tables(rows)
    squares = np.zeros(shape[0], "<f4")
    squares[stored] = take(4 * count).view("<f4")
    return Tables(rows, squares)
