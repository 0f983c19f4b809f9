"""All cases side by side in one arena: one program runs them, wherever it is run, and all is looked at afterwards."""

from typing import Any

import numpy as np
from cases import Dims, assert_matches_spec, call_of, case_id, make_case
from harness_cpp import AlignedArena, bound_line, room_for
from words import as_words

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import KERNELS


class CaseArena:
    """With guards between the tensors; each case is an op of one program."""

    def __init__(self, cases: list[tuple[str, Dims]]) -> None:
        self.cases = cases
        self.made = [make_case(kernel, dims, dtype=np.float32) for kernel, dims in cases]
        self.ops = [call_of(kernel, case) for (kernel, _), case in zip(cases, self.made, strict=True)]
        arrays = [a for case in self.made for a in case.values() if isinstance(a, np.ndarray)]
        self.arena = AlignedArena(room_for(arrays + [np.zeros(op.scratch_floats(), np.float32) for op in self.ops]))
        self.places: list[dict[str, int]] = []
        self.scratches: list[int] = []
        self.words: list[int] = []
        for (kernel, _), case, op in zip(cases, self.made, self.ops, strict=True):
            self.put(kernel, case, op)
        self.before = self.arena.floats.copy()

    def put(self, kernel: str, case: dict[str, Any], op: Any) -> None:
        names = KERNELS[kernel].tensors
        places = {name: self.arena.put(case[name]) for name in names if case[name] is not None}
        words = [bound_line(places[name], case[name]) if name in places else -1 for name in names]
        self.scratches.append(self.arena.put(np.full(op.scratch_floats(), np.nan, np.float32)))
        words += [self.scratches[-1], *op.numbers()]
        self.words += [KERNEL_NAMES.index(kernel), len(words) + 2, *words]
        self.places.append(places)

    def check(self, after: np.ndarray) -> None:
        """What an engine made of `before`: every output within its bound, nothing else touched."""
        self.arena.floats[:] = after
        self.arena.check_guards()
        for (kernel, dims), case, places in zip(self.cases, self.made, self.places, strict=True):
            signature = KERNELS[kernel]
            for name in signature.inputs:
                if name in places:
                    untouched = np.array_equal(self.arena.words(places[name], case[name]), as_words(case[name]))
                    assert untouched, f"{kernel} {case_id(dims)} wrote to its input {name}"
            outputs = {name: self.arena.get(places[name], case[name]) for name in signature.outputs if name in places}
            assert_matches_spec(kernel, dims, outputs)

    def kept(self, after: np.ndarray) -> bytes:
        """All but the working memory, whose content may depend on the number of threads."""
        keep = np.ones(after.size, bool)
        for line, op in zip(self.scratches, self.ops, strict=True):
            keep[16 * line : 16 * line + op.scratch_floats()] = False
        return after[keep].tobytes()
