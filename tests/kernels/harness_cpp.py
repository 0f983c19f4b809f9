"""Runs one C++ kernel on a case's arrays: an arena with guards between them, words, and Python threads."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases import call_of
from words import GUARD_BITS, as_words, from_words, places_of, spread, tensor_of

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import KERNELS
from tinygpt.core.plan.cpu.lowering import DONE_WORD, TEAM_WORDS
from tinygpt.engines import native
from tinygpt.engines.native import library

LINE = 16  # floats in 64 bytes, the arena's unit
GUARD = 4 * LINE


def cpu_lanes() -> list[int]:
    """Widths of vectors that this CPU runs."""
    return [lanes for lanes in (4, 8, 16) if lanes <= native.cpu_lanes()]


def run_kernel(kernel: str, case: dict[str, Any], lanes: int, threads: int = 1, times: int = 1) -> dict[str, Any]:
    """The outputs that the case has after so many runs, by name; the case is left as it was."""
    signature = KERNELS[kernel]
    names = signature.tensors
    arrays = {name: np.asarray(case[name]) for name in names if case[name] is not None}
    op = call_of(kernel, case)
    scratch = np.full(op.scratch_floats(), np.nan, np.float32)

    arena = AlignedArena(room_for([*arrays.values(), scratch]))
    offsets = {name: arena.put(array) for name, array in arrays.items()}
    words = [bound_line(offsets[name], arrays[name]) if name in offsets else -1 for name in names]
    words.append(arena.put(scratch))
    words += op.numbers()
    with poisoned(arena.floats.ctypes.data, arena.is_guard):
        done = replay(lanes, arena.floats, [KERNEL_NAMES.index(kernel), len(words) + 2, *words], threads, times=times)
    assert done == times
    arena.check_guards()
    for name in signature.inputs:
        if name in arrays:
            assert arena.words(offsets[name], arrays[name]).tobytes() == as_words(arrays[name]).tobytes(), (
                f"{kernel} wrote to its input {name}"
            )
    return {name: arena.get(offsets[name], arrays[name]) for name in signature.outputs if name in arrays}


@contextlib.contextmanager
def poisoned(address: int, forbidden: np.ndarray) -> Iterator[None]:
    """Under `make sanitize`, kernels that read or write a forbidden float of those at `address` are reported."""
    if "TINYGPT_SANITIZE" not in os.environ:
        yield
        return
    runtime = ctypes.CDLL(None)  # preloaded
    edges = np.flatnonzero(np.diff(forbidden, prepend=False, append=False)).reshape(-1, 2)
    regions = [(ctypes.c_void_p(address + 4 * int(a)), ctypes.c_size_t(4 * int(b - a))) for a, b in edges]
    for region in regions:
        runtime.__asan_poison_memory_region(*region)
    try:
        yield
    finally:
        for region in regions:
            runtime.__asan_unpoison_memory_region(*region)


def room_for(arrays: list[np.ndarray]) -> int:
    return sum(spread(array).size + 2 * GUARD for array in arrays) + GUARD


def bound_line(line: int, array: np.ndarray) -> int:
    """The line that a call names where the array, or that which it is a slice of, begins at `line`."""
    tensor = tensor_of("", array)
    return line + (tensor.start - tensor.offset()) // LINE


class AlignedArena:
    """Floats whose place 0 is 64-byte aligned, all guards at first."""

    def __init__(self, size: int) -> None:
        raw = np.empty(size + LINE, np.float32)
        skip = -raw.ctypes.data % 64 // 4
        self.floats = raw[skip : skip + size]
        self.floats.view(np.int32)[:] = GUARD_BITS
        self.is_guard = np.ones(size, bool)
        self.end = GUARD

    def put(self, array: np.ndarray) -> int:
        """Where it, or that which it is a slice of, begins, in lines."""
        begin, words = self.end, spread(array)
        self.floats.view(np.int32)[begin : begin + words.size] = words
        self.is_guard[begin + places_of(array)] = False
        self.end = (begin + words.size + GUARD) // LINE * LINE
        return begin // LINE

    def words(self, line: int, like: np.ndarray) -> np.ndarray:
        return self.floats.view(np.int32)[line * LINE + places_of(like)]

    def get(self, line: int, like: np.ndarray) -> np.ndarray:
        return from_words(self.words(line, like), like)

    def check_guards(self) -> None:
        touched = self.is_guard & (self.floats.view(np.int32) != GUARD_BITS)
        assert not touched.any(), f"written outside of a tensor, at floats {np.flatnonzero(touched)[:8]}"


def replay(
    lanes: int,
    arena: np.ndarray,
    words: list[int],
    threads: int,
    times: int = 1,
    commit: int = 0,
    shared: np.ndarray | None = None,
) -> int:
    """tg_run on `threads` threads at once; how many times the words were run through."""
    code = np.array(words, np.int32)
    if shared is None:
        shared = np.zeros(TEAM_WORDS, np.int32)
    arguments = (arena.ctypes.data, code.ctypes.data, len(code), commit, times, shared.ctypes.data)
    run = library(lanes).tg_run
    team = [threading.Thread(target=run, args=(*arguments, i, threads)) for i in range(threads)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    return int(shared[DONE_WORD])
