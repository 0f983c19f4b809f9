"""What every format reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.header import Run, encode_run
from tinygpt.core.modelfile import NOT_FINITE
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.progress import Progress
from tinygpt.engines.base import FloatArray, State


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model, how it was trained and how far.

    `backend` is the engine's name. `data` says which corpus it was, for example {"name", "sha256"}.
    `lora` describes adapters that were merged into the weights. Both hold plain JSON values.
    `left_out` names what a file said and its reader did not understand.
    """

    config: RunConfig
    state: State
    progress: Progress = field(default_factory=Progress)
    backend: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    saved_at: str = ""
    lora: dict[str, Any] | None = None
    left_out: Sequence[str] = ()


def with_state(run: Run, state: State) -> Checkpoint:
    return Checkpoint(state=state, **run._asdict())


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """All of it but the state, by the keys of a file's header."""
    c = checkpoint
    return encode_run(c.config, c.progress, c.backend, c.data, c.lora, c.saved_at)


def checked_vectors(checkpoint: Checkpoint) -> list[FloatArray]:
    """The state's vectors (w, or w, m and v) as little-endian float32, which copies nothing on most machines."""
    state = checkpoint.state
    if (state.m is None) != (state.v is None):
        raise TinyGPTError("an optimizer state needs both moments, m and v, or neither")
    vectors = [np.ascontiguousarray(x, dtype="<f4") for x in (state.w, state.m, state.v) if x is not None]
    count = parameter_count(checkpoint.config.model)
    for vector in vectors:
        if vector.shape != (count,):
            raise TinyGPTError(f"the config's model has {count} parameters, but the state has shape {vector.shape}")
    return vectors


def require_finite(name: str, values: FloatArray) -> None:
    if not np.isfinite(values).all():
        raise TinyGPTError(f"{name} {NOT_FINITE}")


def require_finite_state(checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    for row in parameters(checkpoint.config.model):
        for vector in (state.w, state.m, state.v):
            if vector is not None:
                require_finite(row.name, vector[row.offset : row.offset + row.size])
