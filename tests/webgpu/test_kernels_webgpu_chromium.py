"""The cases of the kernels' table on Chromium's SwiftShader, in one go, against the specification."""

import numpy as np
import pytest
from cases import ALL_CASES, CASES, assert_matches_spec, case_id, make_case
from wgsl_case import GUARD, GUARD_BITS, in_buffer, op_and_arrays, outputs_of

from tinygpt.core.ops.gpu import Target
from tinygpt.core.plan.gpu.recipe import Pipelines, device_of

ALIGNMENT = 64  # floats: bindings begin at multiples of 256 bytes
ABSENT = 4  # floats that stand for a tensor that is not there
NOTHING = {"batch": 1, "ctx": 1, "grad_accum": 1, "seed": 0, "parameters": 0, "inputs": 0, "places": {}, "segments": []}
NOTHING |= {"moves": [], "draws": [], "fills": []}
SLICES = 2
# For SwiftShader: a second and more a pipeline.
SLOW_TO_COMPILE = ("attention.wgsl", "attention_backward.wgsl", "attention_one.wgsl", "embed_backward.wgsl")
SLOW_TO_COMPILE += ("layernorm_backward.wgsl", "rmsnorm_backward.wgsl", "linear.wgsl")


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
        gap = GUARD + -(array.size + GUARD) % ALIGNMENT
        part += [in_buffer(array).view(np.int32).reshape(-1), np.full(gap, GUARD_BITS, np.int32)]
        return start

    def contents(self):
        return [np.concatenate(part) for part in self.parts]


class CaseRun:
    """A case's dispatches, and where its tensors lie."""

    def __init__(self, kernel, dims, device, buffers, pipelines):
        self.kernel, self.dims = kernel, dims
        self.case = make_case(kernel, dims, dtype=np.float32)
        op, self.stored = op_and_arrays(kernel, self.case, SLICES)
        self.buffers, self.places = buffers, {}
        for name, array in self.stored.items():
            self.place(name, array)
        self.words = []
        for dispatch in op.declared.dispatch(op, Target(device, SLICES)):
            words = [pipelines.number(dispatch), *dispatch.grid]
            for index, (_, tensor) in enumerate(dispatch.reads + dispatch.writes):
                name = tensor.name if tensor else f"absent.{index}"
                if name not in self.places:
                    scratch = np.full(tensor.size if tensor else ABSENT, np.nan, np.float32)
                    self.place(name, scratch)
                number, start, size = self.places[name]
                words += [number, 4 * start, 4 * size]
            self.words.append(words)

    def place(self, name, array):
        number = len(self.places)
        self.places[name] = (number, self.buffers.put(number, array), array.size)

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
    """The cases in two parts: the second are those whose pipelines compile slowly, but for the first of a kind."""
    buffers, pipelines = Buffers(), Pipelines()
    runs = [CaseRun(kernel, dims, device, buffers, pipelines) for kernel, dims in ALL_CASES]
    heavy, seen = [], set()
    for run in runs:
        used = [pipelines.made[words[0]] for words in run.words]
        slow = {(*kind["files"], kind["entry"]) for kind in used if kind["files"][-1] in SLOW_TO_COMPILE}
        if slow & seen:
            heavy.append(run)
        seen |= slow
    return buffers, pipelines, [run for run in runs if run not in heavy], heavy


def check(runner, buffers, pipelines, runs):
    used = sorted({words[0] for run in runs for words in run.words})
    programs = {}
    for index, run in enumerate(runs):
        dispatches = [[used.index(words[0]), *words[1:]] for words in run.words]
        programs[f"{index} {run.kernel} {case_id(run.dims)}"] = dispatches
    contents = buffers.contents()
    made = {"buffers": [c.nbytes for c in contents], "pipelines": [pipelines.made[i] for i in used]}
    runner.ask("open-gpu", recipe=NOTHING | made | {"programs": programs})
    for number, content in enumerate(contents):
        runner.ask("write", content.tobytes(), place=[number, 0])
    runner.ask("run", modes=list(programs))
    read = [runner.ask("read", place=[number, 0], size=content.size)[1] for number, content in enumerate(contents)]
    after = [np.frombuffer(raw, np.int32) for raw in read]
    for run in runs:
        assert_matches_spec(run.kernel, run.dims, run.outputs(after))


@pytest.fixture(scope="module")
def cases(gpu_chromium):
    return case_runs(device_of(gpu_chromium.ask("gpu")[0]["device"]))


def test_every_kernel_equals_the_specification(gpu_chromium, cases):
    buffers, pipelines, light, _ = cases
    assert {run.kernel for run in light} == set(CASES)
    check(gpu_chromium, buffers, pipelines, light)


@pytest.mark.slow
def test_every_other_shape_of_the_slow_kernels_equals_the_specification(gpu_chromium, cases):
    buffers, pipelines, _, heavy = cases
    check(gpu_chromium, buffers, pipelines, heavy)
