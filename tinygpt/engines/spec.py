"""The specification as an engine of the terminal: spec_player.py with states as NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.base import Base, State, terminal_engine
from tinygpt.engines.spec_player import SpecMachine


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
