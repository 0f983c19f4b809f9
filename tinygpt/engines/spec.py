"""The engine that defines what a program means: NumPy, one short function a kernel, in float64 or float32.

It replays on the same planned arena as the fast engines, so it proves the plan as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.ops.op import Op, Tensor, bits_float
from tinygpt.engines.base import State
from tinygpt.engines.replay import Array, ReplayEngine
from tinygpt.kernels.spec import SPEC


class SpecEngine(ReplayEngine):
    name = "spec"

    def __init__(self, config: RunConfig, state: State | None = None, *, dtype: npt.DTypeLike = np.float32) -> None:
        super().__init__(config)
        # Temporary memory starts as NaN: what is read before it is written shows.
        self.arena = np.full(self.lowered.plan.size, np.nan, dtype=dtype)
        self.arena[: self.lowered.plan.persistent_size] = 0
        self.start(state)

    def describe(self) -> str:
        return f"spec: NumPy {np.__version__}, {self.arena.dtype}"

    def view(self, tensor: Tensor) -> Array:
        return self.array(next(iter(self.lowered.programs)), tensor)

    def array(self, mode: str, tensor: Tensor) -> Array:
        """A tensor's stretch of the arena, flat. Integers are held as floats here: bytes are exact in them."""
        start = self.lowered.plan.start(mode, tensor)
        return self.arena[start : start + tensor.size]

    def arguments(self, mode: str, op: Op) -> dict[str, Any]:
        signature = op.declared
        given: dict[str, Any] = {}
        for name, tensor in zip(signature.tensors, op.tensors, strict=True):
            if tensor is None:
                given[name] = None
            else:
                array = self.array(mode, tensor).reshape(op.shape(name))
                given[name] = array.astype(np.int64) if tensor.dtype == "i32" else array
        given.update(zip(signature.dims, op.dims, strict=True))
        given.update(zip(signature.scalars, [bits_float(bits) for bits in op.scalars], strict=True))
        return given

    def run(self, mode: str) -> None:
        for op in self.lowered.programs[mode].ops:
            SPEC[op.kernel](**self.arguments(mode, op))
