"""The player that defines what a program means: NumPy, one short function per kernel, in float64 or float32.

It replays on the same planned arena as the fast players, so it proves the plan as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import Op, Tensor, bits_float, elements
from tinygpt.core.plan.cpu.lowering import COMPACT, Lowered
from tinygpt.engines.base import Base, State, flat_bytes, terminal_engine
from tinygpt.kernels.spec import SPEC

Array = npt.NDArray[Any]
BYTES = {"u8": np.uint8, "i8": np.int8, "f16": np.float16}  # what several of lie in a word


class SpecMachine(Machine):
    name = "spec"
    compact = (*COMPACT, "float16")

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
        source, at = np.frombuffer(flat_bytes(data), dtype=np.uint8), 0
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
        for name, tensor in zip(declared.tensors, op.tensors, strict=True):
            given[name] = None if tensor is None else self.array(mode, tensor).reshape(op.shape(name))
        given.update(zip(declared.dims, op.dims, strict=True))
        given.update(zip(declared.scalars, [bits_float(bits) for bits in op.scalars], strict=True))
        return given

    async def run(self, mode: str, times: int) -> int:
        for _ in range(times):
            for op in self.lowered.programs[mode].ops:
                SPEC[op.kernel](**self.arguments(mode, op))
                if self.after is not None:
                    self.after(mode, op)
        return times


def named_engine(
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,
    threads: int | None = None,
) -> ProgramEngine:
    """The engine as the command line asks for it. NumPy decides how many threads its products take."""
    if device not in ("auto", "cpu"):
        raise TinyGPTError(f"the specification is NumPy's, on the CPU, not on '{device}'; use --engine torch for that")
    if precision not in ("auto", "float32", "float64"):
        raise TinyGPTError(f"the specification computes in float32 or float64, not in {precision}")
    return spec_engine(config, state, base, dtype=np.float64 if precision == "float64" else np.float32)


def spec_engine(
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    dtype: npt.DTypeLike = np.float32,
) -> ProgramEngine:
    return terminal_engine(config, SpecMachine(dtype), state, base)
