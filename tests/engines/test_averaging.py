"""Weights that are averages: of the very weights that a run without them has, on every engine and across files."""

import numpy as np
import pytest
from gpu_here import MISSING, gpu_here

from tinygpt.bench.parity import parity
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers.schedule import average_rate
from tinygpt.core.presets import preset
from tinygpt.engines.base import State, terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.reference.engine import TorchEngine
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt

TEXT = np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8).tobytes()
PLAIN = preset("tiny").replace(layers=1, d_model=24, heads=2, ctx=36, batch=2, lr=1e-2, steps=40)  # as lab.EVEN
AVERAGED = PLAIN.replace(average=0.1)
STEPS = 6


def webgpu_engine(config, state=None):
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return terminal_engine(config, WebGPUMachine(gpu=gpu_here()), state)


def torch_engine(config, state=None):
    return TorchEngine(config, state, device="cpu", threads=1)


def started(make, config, state=None):
    engine = make(config, state)
    run_now(engine.load_corpus(TEXT, TEXT))
    return engine


def after(engine, steps):
    run_now(engine.train(steps))
    return run_now(engine.export_state())


def same(a, b):
    return a.w.tobytes() == b.w.tobytes() and all(
        a.slots[name].tobytes() == b.slots[name].tobytes() for name in b.slots
    )


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("make", [native_engine, torch_engine, webgpu_engine])
def test_steps_are_those_of_a_run_without_and_the_weights_follow_them(make):
    plain, averaged = started(make, PLAIN), started(make, AVERAGED)
    kept = after(averaged, 0).w.astype(np.float64)
    for step in range(1, STEPS + 1):
        live, state = after(plain, 1), after(averaged, 1)
        assert state.slots["live"].tobytes() == live.w.tobytes()
        kept += average_rate(AVERAGED.train, step) * (live.w - kept)
        np.testing.assert_allclose(state.w, kept, rtol=0, atol=step * 2**-23 * np.abs(kept).max())
    assert np.abs(kept - live.w).max() > 1e-4  # an average worth the name


def test_the_average_reaches_over_its_share_of_the_run_and_over_less_at_first():
    train = AVERAGED.replace(steps=1000).train
    assert average_rate(train, 1) == pytest.approx(1 / 1.1)
    assert average_rate(train, 1000) == average_rate(train, 991) == pytest.approx(1 / 100)


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("make", [native_engine, torch_engine, webgpu_engine])
def test_what_is_measured_and_written_with_are_the_weights_that_are_kept(make):
    engine = started(make, AVERAGED)
    state = after(engine, STEPS)
    alone = started(make, PLAIN, State(state.step, state.w))
    assert run_now(engine.validate(0, 2)) == run_now(alone.validate(0, 2))
    assert run_now(engine.prefill(b"To be")) == run_now(alone.prefill(b"To be"))
    windows = [TEXT[:12], TEXT[40:52]]
    assert run_now(engine.window_losses(windows)) == run_now(alone.window_losses(windows))


@pytest.mark.parametrize("changes", [{}, {"grad_accum": 2, "optimizer": "sgd"}], ids=["adamw", "accumulated sgd"])
def test_native_and_torch_agree_with_the_spec(changes):
    config = AVERAGED.replace(**changes)
    for engine in (native_engine(config, threads=2), torch_engine(config)):
        spec = spec_engine(config, dtype=np.float64)
        assert parity(config, engine, spec, steps=10).drift < 1e-6
        windows = [TEXT[i : i + 12] for i in range(0, 600, 12)]
        ours, theirs = (np.mean(run_now(measured.window_losses(windows))) for measured in (engine, spec))
        assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("make", [native_engine, torch_engine, webgpu_engine])
def test_a_run_goes_on_to_the_bit_from_its_file_and_begins_with_weights_alone(make, tmp_path):
    engine = started(make, AVERAGED)
    save_tinygpt(tmp_path / "a.tinygpt", Checkpoint(AVERAGED, after(engine, 3)))
    kept = load_tinygpt(tmp_path / "a.tinygpt").state
    assert list(kept.slots) == ["m", "v", "live"]
    assert same(after(started(make, AVERAGED, kept), 3), after(engine, 3))

    fresh = run_now(started(make, AVERAGED, State(3, kept.w)).export_state())
    assert fresh.slots["live"].tobytes() == fresh.w.tobytes() == kept.w.tobytes()


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("make", [native_engine, torch_engine, webgpu_engine])
def test_an_engine_that_begins_anew_forgets_the_average(make):
    engine, fresh = started(make, AVERAGED), started(make, AVERAGED)
    after(engine, 3)
    run_now(engine.restart())
    assert same(after(engine, 2), after(fresh, 2))


def test_a_state_without_its_live_weights_is_refused():
    with pytest.raises(TinyGPTError, match="adamw with averaging keeps m, v, live; go on with the same"):
        native_engine(AVERAGED, after(started(native_engine, PLAIN), 1))
