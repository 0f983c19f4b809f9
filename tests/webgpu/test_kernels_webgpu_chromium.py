"""Every kernel's cases on Chromium's SwiftShader, in one go, against the specification."""

import numpy as np
import pytest
from all_cases import ALL_CASES, CPU_ONLY
from cases import assert_matches_spec, call_of, case_id, make_case
from wgsl_case import GUARD, outputs_of, stored_arrays
from words import GUARD_BITS, as_words

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.gpu import Target
from tinygpt.core.plan.gpu.playbook import Pipelines, device_of

ALIGNMENT = 64  # floats: bindings begin at multiples of 256 bytes
ABSENT = 4  # floats that stand for a tensor that is not there
SLICES = 2


class Buffers:
    """The first tensor of every case lies in buffer 0, the second in buffer 1, …: no op sees one buffer twice.

    Between the tensors there are guards.
    """

    def __init__(self):
        self.parts = []

    def put(self, number, array):
        """Where it begins, in floats."""
        while number >= len(self.parts):
            self.parts.append([])
        part = self.parts[number]
        start = sum(piece.size for piece in part)
        words = as_words(array)
        part += [words, np.full(GUARD + -(words.size + GUARD) % ALIGNMENT, GUARD_BITS, np.int32)]
        return start

    def contents(self):
        return [np.concatenate(part) for part in self.parts]


class CaseRun:
    """A case's dispatches, and where its tensors lie."""

    def __init__(self, kernel, dims, device, buffers, pipelines):
        self.kernel, self.dims = kernel, dims
        self.case = make_case(kernel, dims, dtype=np.float32)
        op, self.stored = call_of(kernel, self.case), stored_arrays(kernel, self.case, SLICES)
        self.buffers, self.places = buffers, {}
        for name, array in self.stored.items():
            self.place(name, array)
        self.words = []
        for dispatch in op.declared.dispatch(op, Target(device, SLICES)):
            words = [pipelines.number(dispatch), *dispatch.grid]
            for index, (_, tensor) in enumerate(dispatch.reads + dispatch.writes):
                name = tensor.root().name if tensor else f"absent.{index}"
                if name not in self.places:
                    scratch = np.full(tensor.size if tensor else ABSENT, np.nan, np.float32)
                    self.place(name, scratch)
                number, start, size = self.places[name]
                first = tensor.start - tensor.offset() if tensor else 0
                words += [number, 4 * (start + first), 4 * (size - first)]
            self.words.append(words)

    def place(self, name, array):
        number = len(self.places)
        self.places[name] = (number, self.buffers.put(number, array), as_words(array).size)

    def outputs(self, after):
        """Of the case, once its guards and inputs were found untouched."""
        found = {}
        for name, (number, start, size) in self.places.items():
            end = start + size
            behind = after[number][end : end + GUARD]
            assert (behind == GUARD_BITS).all(), f"{self.kernel} {case_id(self.dims)} wrote behind {name}"
            found[name] = after[number][start:end]
        return outputs_of(self.kernel, self.case, self.stored, found, SLICES)


def case_runs(device):
    """The cases in two parts: SwiftShader compiles slowly, so of each kernel the first of a kind stands alone."""
    buffers, pipelines = Buffers(), Pipelines()
    runs = [CaseRun(kernel, dims, device, buffers, pipelines) for kernel, dims in ALL_CASES if kernel not in CPU_ONLY]
    firsts, others, compiled, covered = [], [], set(), set()
    for run in runs:
        numbers = {words[0] for words in run.words}
        kinds = {(run.kernel, *made["files"], made["entry"]) for made in (pipelines.made[i] for i in numbers)}
        if kinds <= covered and not numbers <= compiled:
            others.append(run)
        else:
            firsts.append(run)
            compiled |= numbers
            covered |= kinds
    return buffers, pipelines, firsts, others


def check(runner, buffers, pipelines, runs):
    used = sorted({words[0] for run in runs for words in run.words})
    dispatches = [[used.index(words[0]), *words[1:]] for run in runs for words in run.words]
    contents = buffers.contents()
    places = [[number, 0, content.nbytes] for number, content in enumerate(contents)]
    playbook = {"buffers": [content.nbytes for content in contents], "pipelines": [pipelines.made[i] for i in used]}
    player = runner.ask("open-gpu", playbook=playbook | {"programs": {"all": dispatches}})[0]["player"]
    runner.ask("write", b"".join(content.tobytes() for content in contents), player=player, places=places)
    runner.ask("run", player=player, mode="all", times=1)
    read = np.frombuffer(runner.ask("read", player=player, places=places)[1], np.int32)
    runner.ask("close", player=player)
    after = np.split(read, np.cumsum([content.size for content in contents])[:-1])
    for run in runs:
        assert_matches_spec(run.kernel, run.dims, run.outputs(after))


@pytest.fixture(scope="module")
def cases(gpu_chromium):
    return case_runs(device_of(gpu_chromium.ask("gpu")[0]["device"]))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_kernel_equals_the_specification(gpu_chromium, cases):
    buffers, pipelines, firsts, _ = cases
    assert {run.kernel for run in firsts} == set(KERNEL_NAMES) - set(CPU_ONLY)
    check(gpu_chromium, buffers, pipelines, firsts)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_other_shape_equals_the_specification(gpu_chromium, cases):
    buffers, pipelines, _, others = cases
    check(gpu_chromium, buffers, pipelines, others)
