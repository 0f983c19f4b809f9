"""Weights as a compact file keeps them, outside of a player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import ModelConfig
from tinygpt.core.file.front import Piece, canonical_pieces
from tinygpt.core.models.parameters import parameter_count
from tinygpt.engines.base import FloatArray, State

NO_FLOATS = np.zeros(0, np.float32)
Stored = npt.NDArray[np.uint8]


class CompactState(State):
    """Weights alone: `packed` is what a file of that dtype has behind the step. Whoever asks for floats has them
    unpacked anew, so that nobody keeps them who needs them once."""

    model: ModelConfig
    dtype: str
    packed: Stored

    def __new__(cls, step: int, model: ModelConfig, dtype: str, packed: Stored) -> CompactState:
        made = super().__new__(cls, step, NO_FLOATS)
        made.model, made.dtype, made.packed = model, dtype, packed
        return made

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    @property
    def w(self) -> FloatArray:
        floats = np.empty(self.parameters, np.float32)
        for piece in canonical_pieces(self.model, self.dtype):
            floats[piece.offset : piece.offset + piece.size] = unpacked(self.packed, piece).reshape(-1)
        return floats

    def largest(self) -> Iterator[tuple[str, FloatArray]]:
        """By tensor, floats that are all finite if its weights are: of each scaled row the least and the largest."""
        for piece in canonical_pieces(self.model, self.dtype):
            if not piece.scaled:
                yield piece.name, unpacked(self.packed, piece)
                continue
            values, scales = parts_of(self.packed, piece)
            with np.errstate(over="ignore"):
                yield piece.name, np.stack([values.min(axis=1), values.max(axis=1)]) * scales


def unpacked(packed: Stored, piece: Piece) -> FloatArray:
    """Of a scaled matrix each row times its scale, rounded once."""
    if not piece.scaled:
        return packed[piece.at : piece.at + 4 * piece.size].view("<f4")
    values, scales = parts_of(packed, piece)
    product: FloatArray = values * scales[:, None]
    return product


def parts_of(packed: Stored, piece: Piece) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Of a scaled matrix: whole numbers, and the scales of their rows."""
    first = piece.at + 4 * piece.shape[0]
    values = packed[first : first + piece.size].view(np.int8).reshape(piece.shape)
    return values, packed[piece.at : first].view("<f4")
