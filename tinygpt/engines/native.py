"""The C++ kernels through ctypes: host threads replay a program's words on one arena, side by side."""

from __future__ import annotations

import ctypes
import mmap
import time
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.cpu.lowering import COMPACT, DONE_WORD, MAX_THREADS, STOP_WORD, TEAM_WORDS, Lowered
from tinygpt.engines.base import Base, State, flat_bytes, terminal_engine
from tinygpt.engines.crew import Crew
from tinygpt.engines.machine import check_memory, check_threads, cores
from tinygpt.kernels.build import compile_kernels, this_machine


def cpu_lanes() -> int:
    """The widest vectors this CPU has, in floats (NumPy asks the CPU itself, on every system)."""
    if this_machine().machine != "x86_64":
        return 4  # NEON
    try:
        from numpy._core._multiarray_umath import __cpu_features__ as has  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return 4
    if all(has.get(f"AVX512{part}") for part in ("F", "CD", "BW", "DQ", "VL")):
        return 16
    return 8 if has.get("AVX2") and has.get("FMA3") else 4


def library(lanes: int) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(compile_kernels(lanes)))
    pointer, i64, i32 = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
    loaded.tg_run.argtypes = [pointer, pointer, i64, i64, i32, pointer, i32, i32]
    loaded.tg_run.restype = None
    return loaded


def zeros(size: int) -> mmap.mmap:
    """Memory that is taken as it is touched, in large pages where the system has them for what is private."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel may have been built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class NativeMachine(Machine):
    name = "native"

    def __init__(self, threads: int | None = None, lanes: int | None = None) -> None:
        check_threads(threads)
        self.lanes = lanes or cpu_lanes()
        self.threads = threads or min(cores(), MAX_THREADS)
        # There is an instruction for float16 in AVX2's CPUs, and in all of ARM's.
        has_halves = self.lanes > 4 or this_machine().machine == "aarch64"
        self.compact = (*COMPACT, "float16") if has_halves else COMPACT

    def lower(self, config: RunConfig, modes: list[str], **how: Any) -> Lowered:
        return Lowered(config, modes, **how)

    async def open(self, lowered: Lowered) -> NativePlayer:
        exported = sum(tensor.size for tensor in lowered.tensors if tensor.kind in ("weight", "slot"))
        trains = any(tensor.kind == "slot" for tensor in lowered.tensors)
        check_memory(lowered.bytes() + (4 * exported if trains else 0))  # a checkpoint takes a copy of it
        return NativePlayer(lowered.playbook(), self.threads, self.lanes)

    def describe(self) -> str:
        return f"native C++, {self.lanes * 32}-bit vectors, {self.threads} thread{'s' * (self.threads > 1)}"


class NativePlayer(Player):
    def __init__(self, playbook: dict[str, Any], threads: int, lanes: int) -> None:
        self.threads: int = threads
        self.lanes = lanes
        (self.bytes,) = playbook["buffers"]
        self.library = library(lanes)
        self.arena = zeros(self.bytes)
        self.memory = np.frombuffer(self.arena, dtype=np.uint8)
        self.shared = np.zeros(TEAM_WORDS, dtype=np.int32)
        self.programs = {
            mode: (np.array(program["words"], dtype=np.int32), program["commit"])
            for mode, program in playbook["programs"].items()
        }
        self.crew = Crew(threads)

    def describe(self) -> str:
        plural = "s" if self.threads > 1 else ""
        return (
            f"native C++, {self.lanes * 32}-bit vectors, {self.threads} thread{plural}, arena {self.bytes / 1e6:.1f} MB"
        )

    async def write(self, places: list[list[int]], data: Any) -> None:
        self.crew.settle()
        source, at = np.frombuffer(flat_bytes(data), dtype=np.uint8), 0
        for _, start, size in places:
            part = source[at : at + size]
            self.memory[start : start + len(part)] = part
            at += size

    async def read(self, places: list[list[int]]) -> bytes:
        self.crew.settle()
        return b"".join([self.memory[start : start + size].data for _, start, size in places])

    async def run(self, mode: str, times: int) -> int:
        words, commit = self.programs[mode]
        return self.play(words, commit, times)

    def stop(self) -> None:
        self.shared[STOP_WORD] = 1

    def play(self, words: npt.NDArray[np.int32], commit: int, times: int) -> int:
        """All threads replay the words, so many times; how many were done. An interrupt ends it soon."""
        self.crew.settle()
        self.shared[STOP_WORD : DONE_WORD + 1] = 0
        arena, program, shared = self.memory.ctypes.data, words.ctypes.data, self.shared.ctypes.data

        def part(thread: int) -> None:
            """As long as it runs, it keeps the arena (with the player) and the words."""
            self.library.tg_run(arena, program, len(words), commit, times, shared, thread, self.threads)

        try:
            self.crew.run(part)
        except BaseException:
            self.stop()
            raise
        return int(self.shared[DONE_WORD])

    async def clock(self, mode: str) -> list[float]:
        """Ops are run one by one, so the time to wake the threads is in each."""
        words, _ = self.programs[mode]
        seconds = []
        at = 0
        while at < len(words):
            length = int(words[at + 1])
            start = time.perf_counter()
            self.play(words[at : at + length], length, 1)
            seconds.append(time.perf_counter() - start)
            at += length
        return seconds

    async def close(self) -> None:
        self.crew.close()


def native_engine(
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,
    threads: int | None = None,
    lanes: int | None = None,
) -> ProgramEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "cpu"):
        raise TinyGPTError(f"the native engine runs on the CPU, not on '{device}'; use --engine torch for that device")
    if precision not in ("auto", "float32"):
        raise TinyGPTError(f"the native engine computes in float32, not in {precision}; use --engine torch for that")
    return terminal_engine(config, NativeMachine(threads, lanes), state, base)
