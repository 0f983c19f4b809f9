"""A model's state as NumPy arrays, and core's engine with such states."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.memory import PlannedMemory, States
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.memory import SQUARES, TABLES, table_shape
from tinygpt.core.optimizers import check_slots, slot_names

FloatArray = npt.NDArray[np.float32]


class Tables(NamedTuple):
    """A model's n-gram tables, `rows` [G E, W], and what AdaGrad keeps of each row, if it is there."""

    rows: FloatArray
    squares: FloatArray | None = None


class State(NamedTuple):
    """A model's whole state: flat float32 vectors over all parameters, in the order of `core.models.parameters`.

    `slots` are the vectors that training keeps beside them, by name; weights alone have none. Without `tables`, those
    of a model with n-grams are zeros.
    """

    step: int
    w: FloatArray
    slots: Mapping[str, FloatArray] = MappingProxyType({})
    tables: Tables | None = None

    @property
    def parameters(self) -> int:
        return len(self.w)


Base = State | FloatArray  # what adapters are trained on: a model's state, or its weights where that is all


class NumpyStates(States):
    """States as NumPy arrays, for a player of this process or one that answers like it."""

    def check(self, state: State, config: RunConfig) -> None:
        count = trained_count(config)
        if state.parameters != count:
            what = "this model has" if config.lora is None else "these adapters have"
            raise TinyGPTError(f"the state has {state.parameters:,} parameters, but {what} {count:,}")
        check_slots(config.train, list(state.slots))
        if state.tables is not None and state.tables.rows.shape != table_shape(config.model):
            raise TinyGPTError(
                f"the state's n-gram tables have the shape {state.tables.rows.shape}, not {table_shape(config.model)}"
            )

    async def save(self, memory: PlannedMemory, step: int) -> State:
        if memory.player is None and memory.state is not None:
            return memory.state  # type: ignore[no-any-return]
        if memory.player is None:
            await memory.plan([])
        await memory.unpack()
        slots = {name: await vector(memory, name) for name in slot_names(memory.config.train) if memory.has(name)}
        tables = None
        if memory.config.lora is None and memory.has(TABLES):
            squares = await whole(memory, SQUARES) if slots and memory.has(SQUARES) else None
            tables = Tables((await whole(memory, TABLES)).reshape(table_shape(memory.config.model)), squares)
        return State(step, await vector(memory, "weights"), slots, tables)

    async def load(self, memory: PlannedMemory, state: State) -> None:
        if memory.config.lora is None:
            await load_tables(memory, state.tables)
        if memory.is_compact() and memory.dtype_of(state) == memory.compact:
            await memory.player.write(memory.lowered.compact_places(), state.packed)  # type: ignore[attr-defined]
            return
        await memory.unpack()
        await write_vector(memory, "weights", state.w)
        for name in slot_names(memory.config.train):
            if memory.has(name):
                await write_vector(memory, name, state.slots[name] if state.slots else np.zeros_like(state.w))
        if not state.slots:
            await memory.rejoin()

    async def load_base(self, memory: PlannedMemory, base: Base) -> None:
        given = base if isinstance(base, State) else State(0, base)
        await write_vector(memory, "base", given.w)
        await load_tables(memory, given.tables)


async def load_tables(memory: PlannedMemory, tables: Tables | None) -> None:
    for name, values in ((TABLES, tables and tables.rows), (SQUARES, tables and tables.squares)):
        if memory.has(name):
            floats = np.zeros(memory.tensor(name).size, "<f4") if values is None else values
            await memory.player.write(
                memory.places(name, memory.tensor(name).size), np.ascontiguousarray(floats, "<f4")
            )


async def whole(memory: PlannedMemory, name: str) -> FloatArray:
    """All of a tensor."""
    return np.frombuffer(await memory.player.read(memory.places(name, memory.tensor(name).size)), dtype=np.float32)


async def vector(memory: PlannedMemory, name: str) -> FloatArray:
    return np.frombuffer(await memory.player.read(memory.vector_places(name)), dtype=np.float32)


async def write_vector(memory: PlannedMemory, name: str, values: FloatArray) -> None:
    await memory.player.write(memory.vector_places(name), np.ascontiguousarray(values, dtype="<f4"))


def terminal_engine(
    config: RunConfig, machine: Machine, state: State | None = None, base: Base | None = None
) -> ProgramEngine:
    return ProgramEngine(config, machine, NumpyStates(), state, base)


def flat_bytes(data: Any) -> memoryview:
    """Bytes or an array, as bytes."""
    return memoryview(data).cast("B")
