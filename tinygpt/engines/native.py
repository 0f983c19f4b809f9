"""The C++ kernels through ctypes: host threads replay a program's words on one arena, side by side."""

from __future__ import annotations

import ctypes
import mmap
import platform
import time

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.ops.op import Op, Tensor
from tinygpt.core.plan.cpu.lowering import MAX_THREADS
from tinygpt.core.rng import INIT
from tinygpt.engines.base import State
from tinygpt.engines.crew import Crew
from tinygpt.engines.machine import check_memory, check_threads, cores
from tinygpt.engines.replay import Array, ReplayEngine
from tinygpt.kernels.build import compile_kernels


def cpu_lanes() -> int:
    """The widest vectors this CPU has, in floats (NumPy asks the CPU itself, on every system)."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return 4
    try:
        from numpy._core._multiarray_umath import __cpu_features__ as has  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return 4
    if all(has.get(f"AVX512{part}") for part in ("F", "CD", "BW", "DQ", "VL")):
        return 16
    return 8 if has.get("AVX2") and has.get("FMA3") else 4


class NativeEngine(ReplayEngine):
    name = "native"

    def __init__(
        self,
        config: RunConfig,
        state: State | None = None,
        *,
        threads: int | None = None,
        lanes: int | None = None,
    ) -> None:
        check_threads(threads)
        super().__init__(config)
        self.lanes = lanes or cpu_lanes()
        self.threads: int = threads or min(cores(), MAX_THREADS)
        self.bytes = self.lowered.plan.bytes()
        check_memory(self.bytes + self.exported_bytes(state))
        self.library = ctypes.CDLL(str(compile_kernels(self.lanes)))
        pointer, number = ctypes.c_void_p, ctypes.c_uint32
        self.library.tg_run.argtypes = [pointer, pointer, ctypes.c_int64, pointer, number, number]
        self.library.tg_run.restype = None
        self.library.tg_init.argtypes = [pointer, ctypes.c_int64, number, number, number, ctypes.c_double]
        self.library.tg_init.restype = None
        self.arena = mmap.mmap(-1, self.bytes)  # zeros, page by page as they are touched
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.arena.madvise(mmap.MADV_HUGEPAGE)
        self.address = np.frombuffer(self.arena, dtype=np.uint8).ctypes.data
        self.barrier = np.zeros(32, dtype=np.int32)
        self.words = {mode: np.array(words, dtype=np.int32) for mode, words in self.lowered.words.items()}
        self.crew = Crew(self.threads)
        self.start(state)

    def exported_bytes(self, state: State | None) -> int:
        """Of w, m and v as a checkpoint takes them; an engine that is given weights alone is not there to train."""
        trains = state is None or state.m is not None
        return 3 * 4 * parameter_count(self.config.model) if trains else 0

    def describe(self) -> str:
        plural = "s" if self.threads > 1 else ""
        return (
            f"native C++, {self.lanes * 32}-bit vectors, {self.threads} thread{plural}, arena {self.bytes / 1e6:.1f} MB"
        )

    def view(self, tensor: Tensor) -> Array:
        self.crew.settle()
        start = self.lowered.plan.start(next(iter(self.lowered.programs)), tensor)
        dtype = np.int32 if tensor.dtype == "i32" else np.float32
        return np.frombuffer(self.arena, dtype=dtype, count=tensor.size, offset=4 * start)

    def draw(self, there: Array, index: int, std: float) -> None:
        """The same bytes as NumPy's, sooner."""
        self.library.tg_init(there.ctypes.data, there.size, self.config.train.seed, INIT, index, std)

    def run(self, mode: str) -> None:
        self.play(self.words[mode])

    def play(self, words: npt.NDArray[np.int32]) -> None:
        """All threads replay the words."""
        program, barrier = words.ctypes.data, self.barrier.ctypes.data

        def part(thread: int) -> None:
            """As long as it runs, it keeps the arena (with the engine) and the words."""
            self.library.tg_run(self.address, program, len(words), barrier, thread, self.threads)

        self.crew.run(part)

    def profile(self, mode: str) -> list[tuple[Op, float]]:
        """Each op of a program with its seconds, run one by one (so the time to wake the threads is in each)."""
        words = self.words[mode]
        timed = []
        at = 0
        for op in self.lowered.programs[mode].ops:
            length = int(words[at + 1])
            start = time.perf_counter()
            self.play(words[at : at + length])
            timed.append((op, time.perf_counter() - start))
            at += length
        return timed

    async def close(self) -> None:
        self.crew.close()


def native_engine(
    config: RunConfig, state: State | None, *, device: str, precision: str, compile: bool, threads: int | None
) -> NativeEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "cpu"):
        raise TinyGPTError(f"the native engine runs on the CPU, not on '{device}'; use --engine torch for that device")
    if precision not in ("auto", "float32"):
        raise TinyGPTError(f"the native engine computes in float32, not in {precision}; use --engine torch for that")
    return NativeEngine(config, state, threads=threads)
