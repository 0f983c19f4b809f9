"""The compiled modules, kernel by kernel, against the specification: every case, in one run of Node."""

import numpy as np
import pytest
from all_cases import ALL_CASES
from cases import assert_matches_spec, call_of, case_id, make_case
from harness_cpp import AlignedArena, bound_line, room_for
from words import as_words

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import KERNELS

MODULES = [("scalar", 1, False), ("simd", 1, False), ("relaxed", 1, False), ("relaxed", 3, False), ("simd", 2, True)]


class Cases:
    """All cases side by side in one arena, with guards between the tensors; each is an op of one program."""

    def __init__(self):
        self.made = [make_case(kernel, dims, dtype=np.float32) for kernel, dims in ALL_CASES]
        self.ops = [call_of(kernel, case) for (kernel, _), case in zip(ALL_CASES, self.made, strict=True)]
        arrays = [a for case in self.made for a in case.values() if isinstance(a, np.ndarray)]
        self.arena = AlignedArena(room_for(arrays + [np.zeros(op.scratch_floats(), np.float32) for op in self.ops]))
        self.places, self.scratches, self.words = [], [], []
        for (kernel, _), case, op in zip(ALL_CASES, self.made, self.ops, strict=True):
            names = KERNELS[kernel].tensors
            places = {name: self.arena.put(case[name]) for name in names if case[name] is not None}
            words = [bound_line(places[name], case[name]) if name in places else -1 for name in names]
            self.scratches.append(self.arena.put(np.full(op.scratch_floats(), np.nan, np.float32)))
            words += [self.scratches[-1], *op.numbers()]
            self.words += [KERNEL_NAMES.index(kernel), len(words) + 2, *words]
            self.places.append(places)
        self.before = self.arena.floats.copy()

    def run(self, runner, build, threads, force64):
        playbook = {"buffers": [self.before.nbytes], "programs": {"all": {"words": self.words, "commit": 0}}}
        opened, _ = runner.ask("open", playbook=playbook, build=build, threads=threads, force64=force64)
        player, places = opened["player"], [[0, 0, self.before.nbytes]]
        runner.ask("write", self.before.tobytes(), player=player, places=places)
        assert runner.ask("run", player=player, mode="all", times=1)[0]["done"] == 1
        after = runner.ask("read", player=player, places=places)[1]
        runner.ask("close", player=player)
        return np.frombuffer(after, np.float32)


@pytest.fixture(scope="module")
def cases():
    return Cases()


@pytest.fixture(scope="module", params=MODULES, ids=lambda module: "-".join(map(str, module)))
def after(request, cases, node):
    return cases.run(node, *request.param)


def test_every_kernel_equals_the_specification(cases, after):
    cases.arena.floats[:] = after
    cases.arena.check_guards()
    for (kernel, dims), case, places in zip(ALL_CASES, cases.made, cases.places, strict=True):
        signature = KERNELS[kernel]
        for name in signature.inputs:
            if name in places:
                untouched = np.array_equal(cases.arena.words(places[name], case[name]), as_words(case[name]))
                assert untouched, f"{kernel} {case_id(dims)} wrote to its input {name}"
        outputs = {name: cases.arena.get(places[name], case[name]) for name in signature.outputs if name in places}
        assert_matches_spec(kernel, dims, outputs)


def test_threads_and_wide_addresses_do_not_change_a_bit(cases, node):
    keep = np.ones(cases.before.size, bool)  # all but the scratch
    for line, op in zip(cases.scratches, cases.ops, strict=True):
        keep[16 * line : 16 * line + op.scratch_floats()] = False
    digests = {
        cases.run(node, "relaxed", threads, force64)[keep].tobytes()
        for threads, force64 in ((1, False), (2, False), (3, False), (2, True))
    }
    assert len(digests) == 1
