"""A model's state as NumPy has it, and core's engine with such states."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.run.engine import ProgramEngine

FloatArray = npt.NDArray[np.float32]


class State(NamedTuple):
    """A model's whole state: flat float32 vectors over all parameters, in the order of `core.models.parameters`.

    `slots` are the vectors that training keeps beside them, by name; weights alone have none.
    """

    step: int
    w: FloatArray
    slots: Mapping[str, FloatArray] = MappingProxyType({})

    @property
    def parameters(self) -> int:
        return len(self.w)


class TerminalEngine(ProgramEngine):
    """Over a player of this process, or one that answers like it."""

    async def export_state(self) -> State:
        if self.player is None and self.state is not None:
            return self.state  # type: ignore[no-any-return]
        if self.player is None:
            await self.plan([])
        await self.unpack()
        slots = {name: await self.vector(name) for name in self.slots if self.has(name)}
        return State(self.step, await self.vector("weights"), slots)

    async def vector(self, name: str) -> FloatArray:
        return np.frombuffer(await self.player.read(self.vector_places(name)), dtype=np.float32)

    async def import_state(self, state: State) -> None:
        self.check_state(state, self.config)
        if self.player is None:
            self.state, self.compact = state, self.dtype_of(state)
            self.step = state.step
            return
        if self.is_compact() and self.dtype_of(state) == self.compact:
            await self.player.write(self.lowered.compact_places(), state.packed)  # type: ignore[attr-defined]
            await self.set_step(state.step)
            return
        await self.unpack()
        await self.write_vector("weights", state.w)
        for name in self.slots:
            if self.has(name):
                await self.write_vector(name, state.slots[name] if state.slots else np.zeros_like(state.w))
        if not state.slots:
            await self.rejoin()
        await self.set_step(state.step)

    async def write_vector(self, name: str, values: FloatArray) -> None:
        await self.player.write(self.vector_places(name), np.ascontiguousarray(values, dtype="<f4"))


def flat_bytes(data: Any) -> memoryview:
    """Bytes or an array, as bytes."""
    return memoryview(data).cast("B")
