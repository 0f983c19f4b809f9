"""Weights as a compact file keeps them, outside of a player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import ModelConfig
from tinygpt.core.models.compact import Piece, is_matrix, packed_pieces
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.engines.base import FloatArray, State, Tables

NO_FLOATS = np.zeros(0, np.float32)
Stored = npt.NDArray[np.uint8]


class CompactState(State):
    """Weights alone: `packed` is as `packed_pieces` says. Whoever asks for floats has them unpacked anew, so that
    nobody keeps them who needs them once."""

    model: ModelConfig
    dtype: str
    packed: Stored

    def __new__(
        cls, step: int, model: ModelConfig, dtype: str, packed: Stored, tables: Tables | None = None
    ) -> CompactState:
        made = super().__new__(cls, step, NO_FLOATS, tables=tables)
        made.model, made.dtype, made.packed = model, dtype, packed
        return made

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    @property
    def w(self) -> FloatArray:
        floats = np.empty(self.parameters, np.float32)
        for piece, stored in self.pieces():
            row = piece.row
            floats[row.offset : row.offset + row.size].reshape(row.shape)[...] = self.unpacked(piece, stored)
        return floats

    def pieces(self) -> Iterator[tuple[Piece, Stored]]:
        for piece in packed_pieces(parameters(self.model), self.dtype):
            yield piece, self.packed[piece.at : piece.at + piece.size]

    def unpacked(self, piece: Piece, stored: Stored) -> FloatArray:
        """Of a matrix with scales each row times its own, rounded once."""
        row = piece.row
        if not is_matrix(row):
            return stored.view("<f4")
        if self.dtype == "float16":
            return stored.view("<f2")[: row.size].reshape(row.shape).astype(np.float32)
        values, scales = parts_of(piece, stored)
        product: FloatArray = values * scales[:, None]
        return product

    def largest(self) -> Iterator[tuple[str, FloatArray]]:
        """By tensor, floats that are all finite if its weights are: of each scaled row the least and the largest."""
        for piece, stored in self.pieces():
            if self.dtype == "float16" or not is_matrix(piece.row):
                yield piece.row.name, self.unpacked(piece, stored)
                continue
            values, scales = parts_of(piece, stored)
            with np.errstate(over="ignore"):
                yield piece.row.name, np.stack([values.min(axis=1), values.max(axis=1)]) * scales


def parts_of(piece: Piece, stored: Stored) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Of a matrix with scales: whole numbers, and the scales of their rows."""
    row, first = piece.row, 4 * piece.row.shape[0]
    return stored[first : first + row.size].view(np.int8).reshape(row.shape), stored[:first].view("<f4")
