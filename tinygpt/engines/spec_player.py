"""The player that defines what a program means: NumPy, one short function per kernel, in float64 or float32.

It replays on the same planned arena as the fast players, so it proves the plan as well. In the tab it is what labs
compute with (tinygpt/labs/arrays).
"""
# ruff: noqa: B905, RUF005 (MicroPython's zip takes no strict, and it has no [*a])

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.memory import States
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.ops.op import Op, Tensor, bits_float, elements
from tinygpt.core.plan.cpu.lowering import COMPACT, Lowered
from tinygpt.kernels.spec import SPEC

Array = npt.NDArray[Any]
BYTES = {"u8": np.uint8, "i8": np.int8, "f16": np.float16}  # what several of lie in a word


class SpecMachine(Machine):
    name = "spec"
    compact = COMPACT + ("float16",)

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self.dtype = dtype

    def lower(self, config: RunConfig, modes: list[str], **how: Any) -> Lowered:
        return Lowered(config, modes, **how)

    async def open(self, lowered: Lowered) -> SpecPlayer:
        return SpecPlayer(lowered, self.dtype)


class SpecPlayer(Player):
    """The arena is three arrays: of floats, of whole numbers and of bytes. A tensor lies in that of its dtype."""

    threads = 1

    def __init__(self, lowered: Lowered, dtype: npt.DTypeLike) -> None:
        self.lowered = lowered
        plan = lowered.plan
        # Temporary memory starts as NaN: what is read before it is written shows.
        self.floats = np.full(plan.size, np.nan, dtype=dtype)
        self.floats[: plan.persistent_size] = 0
        self.ints = np.zeros(plan.size, dtype=np.int64)
        self.bytes = np.zeros(4 * plan.size, dtype=np.uint8)
        self.after: Callable[[str, Op], None] | None = None  # called after each op, while its tensors are there

    def describe(self) -> str:
        return f"spec: NumPy {np.__version__}, {self.floats.dtype}"

    def array(self, mode: str, tensor: Tensor) -> Array:
        """A tensor's stretch of its arena, flat; as a matrix where rows lie apart."""
        start = self.lowered.plan.start(mode, tensor)
        if tensor.dtype in BYTES:
            return self.bytes[4 * start :].view(BYTES[tensor.dtype])[: elements(tensor.shape)]
        stretch = (self.ints if tensor.dtype == "i32" else self.floats)[start : start + tensor.span()]
        if tensor.span() == tensor.size:
            return stretch
        return as_strided(stretch, tensor.shape, (tensor.pitch * stretch.itemsize, stretch.itemsize))

    def view(self, name: str) -> Array:
        """A persistent tensor, by name."""
        tensor = next(tensor for tensor in self.lowered.tensors if tensor.name == name)
        return self.array(self.lowered.modes[0], tensor)

    def dtype_at(self, place: int) -> str:
        """Of the persistent tensor at a place of the arena."""
        return next(
            slot.tensor.dtype
            for slot in self.lowered.plan.persistent
            if slot.start <= place < slot.start + max(slot.size, 1)
        )

    async def write(self, places: list[list[int]], data: Any) -> None:
        source, at = np.frombuffer(data, dtype=np.uint8), 0
        for _, start, size in places:
            part = source[at : at + size]
            at += size
            dtype = self.dtype_at(start // 4)
            if dtype in BYTES:
                self.bytes[start : start + len(part)] = part
            else:
                there = self.ints if dtype == "i32" else self.floats
                there[start // 4 : (start + size) // 4] = part.view(np.int32 if dtype == "i32" else np.float32)

    async def read(self, places: list[list[int]]) -> bytes:
        parts = []
        for _, start, size in places:
            dtype = self.dtype_at(start // 4)
            if dtype in BYTES:
                parts.append(self.bytes[start : start + size].tobytes())
            elif dtype == "i32":
                parts.append(self.ints[start // 4 : (start + size) // 4].astype(np.int32).tobytes())
            else:
                parts.append(self.floats[start // 4 : (start + size) // 4].astype(np.float32).tobytes())
        return b"".join(parts)

    def arguments(self, mode: str, op: Op) -> dict[str, Any]:
        declared = op.declared
        given: dict[str, Any] = {}
        for name, tensor in zip(declared.tensors, op.tensors):
            given[name] = None if tensor is None else self.array(mode, tensor).reshape(op.shape(name))
        given.update(zip(declared.dims, op.dims))
        given.update(zip(declared.scalars, [bits_float(bits) for bits in op.scalars]))
        return given

    async def run(self, mode: str, times: int) -> int:
        for _ in range(times):
            self.play(mode, self.lowered.programs[mode].ops)
        return times

    def play(self, mode: str, ops: list[Op]) -> None:
        """Some of a program's ops."""
        for op in ops:
            SPEC[op.kernel](**self.arguments(mode, op))
            if self.after is not None:
                self.after(mode, op)


def plain_engine(config: RunConfig, dtype: npt.DTypeLike = np.float64) -> ProgramEngine:
    """One whose states nobody asks for."""
    return ProgramEngine(config, SpecMachine(dtype), States())
