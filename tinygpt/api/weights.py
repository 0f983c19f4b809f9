"""All weights of a model as one vector, and each tensor by its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.models.parameters import parameters
from tinygpt.engines.base import FloatArray


class Weights(np.ndarray[Any, np.dtype[np.float32]]):
    """A float32 vector in the order of docs/format.md.

    >>> model.weights["blocks.0.attn.q_proj.weight"].shape
    (96, 96)
    """

    places: dict[str, tuple[int, tuple[int, ...]]]  # offset and shape of each tensor

    def __array_finalize__(self, other: object) -> None:
        self.places = getattr(other, "places", {})

    def __getitem__(self, key: Any) -> Any:
        """By a name, the tensor (a view); else as of any array."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.places:
            raise TinyGPTError(f"this model has no tensor '{key}'{instead(key, self.names())}")
        offset, shape = self.places[key]
        return np.asarray(self)[offset : offset + int(np.prod(shape))].reshape(shape)

    def names(self) -> list[str]:
        return list(self.places)


def named(model: ModelConfig, weights: FloatArray) -> Weights:
    found = weights.view(Weights)
    found.places = {row.name: (row.offset, tuple(row.shape)) for row in parameters(model)}
    return found
