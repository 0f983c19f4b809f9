"""What every format reads and writes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.edited import EDIT
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import NOT_FINITE
from tinygpt.core.file.header import Run, encode_run
from tinygpt.core.models.memory import TABLES, table_shape
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.optimizers import check_slots, slot_names
from tinygpt.core.train.progress import Progress
from tinygpt.engines.base import FloatArray, State, Tables
from tinygpt.engines.compact import CompactState


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model, how it was trained and how far.

    `backend` is the engine's name. `data` says which corpus it was, for example {"name", "sha256"}.
    `lora` describes adapters that were merged into the weights, `origin` the model whose weights the run began with,
    as {"model", "sha256"}. All three hold plain JSON values.
    `left_out` names what a file said and its reader did not understand. `edit` is that of the sources that trained it.
    """

    config: RunConfig
    state: State
    progress: Progress = field(default_factory=Progress)
    backend: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    saved_at: str = ""
    lora: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    left_out: Sequence[str] = ()
    edit: str = EDIT

    @property
    def text_name(self) -> str:
        """Of the corpus; empty where nobody said."""
        name = self.data.get("name")
        return name if isinstance(name, str) else ""


def with_state(run: Run, state: State) -> Checkpoint:
    return Checkpoint(state=state, **run._asdict())


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """All of it but the state, by the keys of a file's header."""
    c = checkpoint
    return encode_run(c.config, c.progress, c.backend, c.data, c.lora, c.saved_at, c.origin, c.edit)


def weights_alone(checkpoint: Checkpoint) -> Checkpoint:
    """Without what the optimizer keeps."""
    state = checkpoint.state
    if not state.slots:
        return checkpoint
    tables = None if state.tables is None else Tables(state.tables.rows)
    return replace(checkpoint, state=State(state.step, state.w, tables=tables))


def weights_sha256(weights: FloatArray, tables: Tables | None = None) -> str:
    """Of the weights alone, in the order of `core.models.parameters`, n-gram tables last: the same in whichever format
    they are kept."""
    digest = hashlib.sha256(little_endian(weights).data)
    if tables is not None:
        digest.update(little_endian(tables.rows).data)
    return digest.hexdigest()


def state_sha256(state: State) -> str:
    """Of a state's weights."""
    return weights_sha256(state.w, state.tables)


def checked_state(checkpoint: Checkpoint) -> State:
    """Slots in the optimizer's order, all as little-endian float32, which copies nothing on most machines."""
    state, train = checkpoint.state, checkpoint.config.train
    check_slots(train, list(state.slots))
    order = slot_names(train) if state.slots else ()
    count = parameter_count(checkpoint.config.model)
    for vector in vectors_of(state):
        if vector.shape != (count,):
            raise TinyGPTError(f"the config's model has {count} parameters, but the state has shape {vector.shape}")
    slots = {name: little_endian(state.slots[name]) for name in order}
    return State(state.step, little_endian(state.w), slots, checked_tables(checkpoint))


def checked_tables(checkpoint: Checkpoint) -> Tables | None:
    tables, model = checkpoint.state.tables, checkpoint.config.model
    if tables is not None and tables.rows.shape != table_shape(model):
        raise TinyGPTError(
            f"the config's model has n-gram tables of the shape {table_shape(model)}, but the state's have "
            f"{tables.rows.shape}"
        )
    return tables


def vectors_of(state: State) -> list[FloatArray]:
    """As a file has them, tensor by tensor."""
    return [state.w, *state.slots.values()]


def little_endian(values: FloatArray) -> FloatArray:
    return np.ascontiguousarray(values, dtype="<f4")


def require_finite(name: str, values: FloatArray) -> None:
    if not np.isfinite(values).all():
        raise TinyGPTError(f"{name} {NOT_FINITE}")


def require_finite_tables(tables: Tables | None) -> None:
    for values in () if tables is None else tables:
        if values is not None:
            require_finite(TABLES, values)


def require_finite_state(checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    require_finite_tables(state.tables)
    if isinstance(state, CompactState):
        for name, floats in state.largest():
            require_finite(name, floats)
        return
    vectors = vectors_of(state)
    for row in parameters(checkpoint.config.model):
        for vector in vectors:
            require_finite(row.name, vector[row.offset : row.offset + row.size])
