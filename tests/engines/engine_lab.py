"""Every engine by name, in sizes that it can be proved with in seconds, and what it is held to."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from gpu_here import webgpu

from tinygpt.bench.workload import made_up_text
from tinygpt.core.config import LN_VOCAB, VOCAB, LoraConfig, RunConfig
from tinygpt.core.engine.contract import StepMetrics, run_now
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate
from tinygpt.engines.base import FloatArray, State, terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.engines.wasm import WasmMachine
from tinygpt.engines.webgpu_chromium import WebGpuChromiumMachine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.distributed import torch_engine

CORPUS = made_up_text()[:3001]
TEXT = np.random.default_rng(1).integers(0, 256, 1501, dtype=np.uint8).tobytes()
RATES = {"lr": 3e-3, "schedule": "cosine", "warmup": 5, "steps": 200}
ODD = {"layers": 2, "d_model": 30, "heads": 3, "ctx": 37, "batch": 3, "eval_batches": 2, **RATES}
EVEN = {**ODD, "d_model": 24, "heads": 2, "ctx": 36, "batch": 2}  # the WGSL kernels for multiples of 4
# SwiftShader takes seconds to compile a kernel that is blocked for even sizes, and a tenth for a step of this model.
LEAST = {**ODD, "layers": 1, "d_model": 35, "heads": 5, "ctx": 9, "batch": 2}
GATES: dict[str, dict[str, Any]] = {  # sizes that the overfit gate is run with; where software is slow, the least
    "webgpu-chromium": {"lr": 1e-2, "schedule": "constant"},
    **{name: {"d_model": 48, "ctx": 16, "batch": 3} for name in ("spec", "webgpu", "webgpu-even")},
    **{name: {"d_model": 96, "ctx": 32, "batch": 8} for name in ("native", "torch", "wasm-node", "wasm-chromium")},
}
SIZES = {"webgpu-even": EVEN, "webgpu-chromium": LEAST}
GROUPS = {"webgpu": "wgpu", "webgpu-even": "wgpu", "webgpu-chromium": "webgpu", "wasm-node": "wasm"}
GROUPS |= {"wasm-chromium": "wasm"}  # of tests that one worker of pytest-xdist runs: they share pipelines or a runner
NAMES = ["spec", "native", "torch", "webgpu", "webgpu-even", "wasm-node", "wasm-chromium", "webgpu-chromium"]
# These run what others of them run, in another host or with other sizes, and software compiles for them for long:
# `make test` has a few journeys on them, `make test-slow` the rest.
BRIEF = ["webgpu-even", "wasm-chromium", "webgpu-chromium"]
THREADED = ["native", "wasm-node", "wasm-chromium"]


def named(names: list[str], slow: list[str] = BRIEF) -> list[Any]:
    """Parameters of the fixture `lab`; some are for `make test-slow`."""
    marks: dict[str, list[pytest.MarkDecorator]] = {name: [] for name in names}
    for name in names:
        marks[name] += [pytest.mark.xdist_group(GROUPS[name])] if name in GROUPS else []
        marks[name] += [pytest.mark.slow] if name in slow else []
    return [pytest.param(name, marks=marks[name]) for name in names]


class Lab:
    """Makes engines of a name, and ends them."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        self.name = name
        self.request = request
        on_gpu = name.startswith("webgpu")
        self.steps = 20 if on_gpu else 50
        self.gate = GATES[name]
        self.sizes = SIZES.get(name, ODD)
        self.machine: Any = None  # where a device is opened for it
        self.made: list[Any] = []
        self.kept: dict[str, Any] = {}

    def config(self, **changes: Any) -> RunConfig:
        return preset("tiny").replace(**{**self.sizes, **changes})

    def reference(self, steps: int, **changes: Any) -> tuple[list[StepMetrics], State, float]:
        return reference(steps, **{**self.sizes, **changes})

    def new(self, state: State | None = None, threads: int | None = None, force64: bool = False, **changes: Any) -> Any:
        """An engine of its own."""
        engine = self.make(self.config(**changes), state, threads, force64)
        self.made.append(engine)
        return engine

    def adapted(self, lora: LoraConfig, base: FloatArray, **changes: Any) -> Any:
        """One that trains adapters on the weights `base`."""
        plain = self.config(**changes)
        engine = self.make(RunConfig(plain.model, plain.train, lora), None, None, False, base)
        self.made.append(engine)
        return loaded(engine)

    def make(
        self, config: RunConfig, state: State | None, threads: int | None, force64: bool, base: FloatArray | None = None
    ) -> Any:
        if self.name == "spec":
            return spec_engine(config, state, base)
        if self.name == "native":
            return native_engine(config, state, base, threads=threads)
        if self.name == "torch":
            return torch_engine(config, state, base, device="cpu", threads=1)
        if self.name in ("webgpu", "webgpu-even"):
            return webgpu(config, state, base)
        if self.name == "webgpu-chromium":
            if self.machine is None:
                self.machine = WebGpuChromiumMachine(runner=self.request.getfixturevalue("gpu_chromium"))
            return terminal_engine(config, self.machine, state, base)
        kind = self.name.removeprefix("wasm-")
        runner = self.request.getfixturevalue(kind)
        return terminal_engine(config, WasmMachine(kind, threads=threads, force64=force64, runner=runner), state, base)

    def engine(self, **changes: Any) -> Any:
        """One for all tests with these settings, as if new, with CORPUS to train on and to validate with."""
        key = repr(sorted(changes.items()))
        if key not in self.kept:
            self.kept[key] = loaded(self.new(**changes))
        engine = self.kept[key]
        run_now(engine.read_metrics())
        run_now(engine.import_state(State(0, initial_weights(engine.config.model, engine.config.train.seed))))
        return engine

    def close(self) -> None:
        for engine in self.made:
            run_now(engine.close())


def loaded(engine: Any) -> Any:
    run_now(engine.load_corpus(CORPUS, CORPUS[300:]))
    return engine


def trained(engine: Any, steps: int, block: int = 8) -> list[StepMetrics]:
    """The metrics of so many more steps, which are asked for in blocks."""
    for first in range(0, steps, block):
        count = min(block, steps - first)
        assert run_now(engine.train(count)) == count
    metrics: list[StepMetrics] = run_now(engine.read_metrics())
    return metrics


def state_of(engine: Any) -> State:
    state: State = run_now(engine.export_state())
    return state


def bytes_of(state: State) -> bytes:
    return b"".join(part.tobytes() for part in (state.w, *state.slots.values()))


def uneven(config: RunConfig) -> State:
    """Away from the start, where logits are all alike, but not where attention's sums are ill-conditioned."""
    return State(0, initial_weights(config.model, 3) * 4)


def rounding(config: RunConfig, largest_logit: float) -> float:
    """Of a loss, which is a difference of numbers no larger than twice the largest logit: the roundings to float32 of
    all sums on the way, n of which add up as sqrt(n) does."""
    C, layers = config.model.d_model, config.model.layers
    terms = layers * (2 * C + C + config.model.ctx + C + C + 4 * C) + C + C + VOCAB
    return math.sqrt(terms) * 2.0**-24 * 2 * (largest_logit + LN_VOCAB)


@functools.cache
def reference(count: int, **sizes: Any) -> tuple[list[StepMetrics], State, float]:
    """Metrics, state and validation loss after some steps of the specification in float64."""
    engine = loaded(spec_engine(preset("tiny").replace(**sizes), dtype=np.float64))
    metrics = trained(engine, count)
    return metrics, state_of(engine), run_now(validate(engine))


def assert_like_the_reference(
    metrics: list[StepMetrics], state: State, expected: list[StepMetrics], reached: State
) -> None:
    assert [row.step for row in metrics] == [row.step for row in expected]
    np.testing.assert_allclose([row.loss for row in metrics], [row.loss for row in expected], rtol=2e-6)
    np.testing.assert_allclose([row.grad_norm for row in metrics], [row.grad_norm for row in expected], rtol=2e-5)
    assert state.step == reached.step
    # A weight without influence (a key's bias) has gradients of mere rounding, which AdamW makes steps of.
    np.testing.assert_allclose(state.w, reached.w, rtol=0, atol=1e-4)
    assert list(state.slots) == list(reached.slots)
    for name, bound in (("m", 1e-6), ("v", 1e-7)):
        np.testing.assert_allclose(state.slots[name], reached.slots[name], rtol=0, atol=bound)
