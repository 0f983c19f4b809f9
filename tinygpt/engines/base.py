"""A model's state as NumPy has it, and core's engine with such states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.run.contract import run_now
from tinygpt.core.run.engine import ProgramEngine

FloatArray = npt.NDArray[np.float32]


class State(NamedTuple):
    """A model's whole state: flat float32 vectors over all parameters, in the order of `core.models.parameters`.

    `m` and `v` are AdamW's moments; both are None for weights without optimizer state.
    """

    step: int
    w: FloatArray
    m: FloatArray | None = None
    v: FloatArray | None = None


class TerminalEngine(ProgramEngine):
    """Over a player of this process, or one that answers like it."""

    async def export_state(self) -> State:
        if self.player is None and self.state is not None:
            return self.state  # type: ignore[no-any-return]
        if self.player is None:
            await self.plan([])
        return State(self.step, *[await self.vector(name) for name in ("weights", "m", "v")])  # type: ignore[arg-type]

    async def vector(self, name: str) -> FloatArray | None:
        if not self.has(name):
            return None
        return np.frombuffer(await self.player.read(self.vector_places(name)), dtype=np.float32)

    async def import_state(self, state: State) -> None:
        self.check_state(state, self.config)
        if self.player is None:
            self.state = state
            self.step = state.step
            return
        for name, values in (("weights", state.w), ("m", state.m), ("v", state.v)):
            if self.has(name):
                vector = np.zeros(len(state.w), np.float32) if values is None else values
                await self.player.write(self.vector_places(name), np.ascontiguousarray(vector, dtype="<f4"))
        await self.set_step(state.step)


def open_now(engine: ProgramEngine, modes: list[str]) -> None:
    """Have programs planned and memory taken."""
    run_now(engine.require(modes))


def flat_bytes(data: Any) -> memoryview:
    """Bytes or an array, as bytes."""
    return memoryview(data).cast("B")
