"""An engine that begins with a state: it draws nothing, and goes on as the one that the state came from."""

import numpy as np
import pytest
from gpu_here import webgpu

from tinygpt.bench.workload import Run
from tinygpt.core.config import preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.trainer import run_now
from tinygpt.engines.base import State
from tinygpt.engines.native import NativeEngine
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.engines.spec import SpecEngine
from tinygpt.reference.engine import TorchEngine

CONFIG = preset("tiny").replace(layers=1, d_model=16, heads=2, ctx=8, batch=2)
COUNT = parameter_count(CONFIG.model)
ENGINES = {
    "spec": SpecEngine,
    "native": lambda *given: NativeEngine(*given, threads=1),
    "torch": lambda *given: TorchEngine(*given, device="cpu", threads=1),
    "by name": lambda *given: make_engine(given[0], EngineChoice(threads=1), *given[1:]),
    "webgpu": webgpu,
    "torch by name": lambda *given: make_engine(given[0], EngineChoice("torch", "cpu", threads=1), *given[1:]),
}
each_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


@pytest.fixture
def no_draws(monkeypatch):
    """Draw start values, and the test fails."""
    monkeypatch.setattr("tinygpt.engines.replay.ProgramEngine.draw", None)  # webgpu's too
    monkeypatch.setattr("tinygpt.engines.native.NativeEngine.draw", None)
    monkeypatch.setattr("tinygpt.reference.engine.initial_weights", None)


@each_engine
def test_it_goes_on_where_the_other_stopped(make):
    straight = Run(CONFIG, make(CONFIG))
    straight.advance(3)
    state = run_now(straight.engine.export_state())
    expected = straight.advance(3)

    engine = make(CONFIG, state)
    resumed = Run(CONFIG, engine)
    resumed.step = state.step
    assert resumed.advance(3) == expected
    for a, b in zip(run_now(engine.export_state()), run_now(straight.engine.export_state()), strict=True):
        assert np.array_equal(a, b)


@each_engine
def test_nothing_is_drawn(make, no_draws):
    w = np.arange(COUNT, dtype=np.float32)
    state = run_now(make(CONFIG, State(7, w)).export_state())
    assert state.step == 7 and np.array_equal(state.w, w)
    assert not state.m.any() and not state.v.any()


@each_engine
def test_a_state_without_moments_clears_those_there_are(make):
    run = Run(CONFIG, make(CONFIG))
    run.advance(2)
    used = run_now(run.engine.export_state())
    assert used.m.any() and used.v.any()
    run_now(run.engine.import_state(State(0, used.w)))
    cleared = run_now(run.engine.export_state())
    assert np.array_equal(cleared.w, used.w) and not cleared.m.any() and not cleared.v.any()


@each_engine
def test_a_state_of_another_model_is_refused(make):
    with pytest.raises(TinyGPTError, match=r"parameters, but this model has|of a model with other settings"):
        make(CONFIG, State(0, np.zeros(COUNT + 1, dtype=np.float32)))
