"""The WGSL engine's own: a device's limits, float16, what is lowered once. All else is in test_conformance.py."""

import math

import numpy as np
import pytest
from engine_lab import EVEN, ODD, bytes_of, loaded, state_of, trained
from gpu_here import MISSING, gpu_here, webgpu

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import Run
from tinygpt.core.engine.contract import run_now
from tinygpt.core.ops.gpu import Device
from tinygpt.core.presets import preset
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Diverged, Trainer
from tinygpt.core.train.validation import validate
from tinygpt.engines.native import native_engine
from tinygpt.reference.engine import TorchEngine

if gpu_here() is None:
    pytest.skip(MISSING, allow_module_level=True)

from tinygpt.engines.select import EngineChoice, make_engine

pytestmark = pytest.mark.xdist_group("wgpu")  # one worker has all the pipelines

# Sizes that other tests have, too: their kernels are compiled once.
MICRO = preset("tiny").replace(layers=1, d_model=10, heads=2, ctx=8, batch=2)
SHAPES = {"odd": preset("tiny").replace(**ODD), "even": preset("tiny").replace(**EVEN)}


@pytest.mark.parametrize("grad_accum", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name, limit", [("odd", 120), pytest.param("even", 80, marks=pytest.mark.slow)])
def test_small_limits_give_the_same_training(name, limit, grad_accum, monkeypatch):
    """Several segments, several arenas: the same losses, and weights to the bit but for the norm's order of sums."""
    config = SHAPES[name].replace(grad_accum=grad_accum, grad_clip=0.0)
    plain = loaded(webgpu(config))
    metrics, state = trained(plain, 3), state_of(plain)
    describe = type(gpu_here()).describe

    def described(gpu) -> Device:
        device = describe(gpu)
        device.max_binding, device.max_buffer = limit * 1024, (limit + 16) * 1024
        return device

    monkeypatch.setattr(type(gpu_here()), "describe", described)
    engine = loaded(webgpu(config))
    assert max(engine.lowered.playbook()["buffers"]) <= (limit + 16) * 1024
    assert len(engine.lowered.segments) > 1 and engine.lowered.plan.owners.count("arena") > 3
    got = trained(engine, 3)
    assert [row.loss for row in got] == [row.loss for row in metrics]
    np.testing.assert_allclose([row.grad_norm for row in got], [row.grad_norm for row in metrics], rtol=1e-6)
    assert bytes_of(state_of(engine)) == bytes_of(state)
    for ask in (lambda one: one.prefill(b"abc"), lambda one: one.decode(7), lambda one: validate(one)):
        assert run_now(ask(engine)) == run_now(ask(plain))
    assert bytes_of(state_of(loaded(webgpu(config, state)))) == bytes_of(state)


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_the_training():
    class Clock(Host):
        seconds = 0.0

        def now(self):
            self.seconds += 1
            return self.seconds

    config = MICRO.replace(sample_every=0)  # nothing is written before the loss is looked at
    engine = loaded(webgpu(config))
    state = state_of(engine)
    run_now(engine.import_state(state._replace(w=np.full_like(state.w, math.nan))))
    with pytest.raises(Diverged, match="the loss is nan"):
        run_now(Trainer(config, engine, Clock(), 3001, 2701).run())


needs_f16 = pytest.mark.skipif("shader-f16" not in gpu_here().features, reason="this adapter has no float16")


@needs_f16
@pytest.mark.slow
def test_float16_tiles_train_nearly_alike():
    config = SHAPES["even"].replace(lr=3e-4, schedule="constant")
    plain, rounded = webgpu(config), webgpu(config, f16=True)
    result = parity(config, rounded, plain, 20)
    assert "float32" in plain.describe() and "float16 tiles" in rounded.describe()
    assert 0 < result.drift < 2e-3


def test_it_is_had_by_name_and_says_what_it_runs_on():
    engine = make_engine(MICRO, EngineChoice("webgpu", gpu_here().name))
    assert engine.name == "webgpu" and gpu_here().name in engine.describe()
    assert ("not a GPU" in engine.describe()) == gpu_here().software
    assert trained(loaded(engine), 2) == trained(loaded(webgpu(MICRO)), 2)
    run_now(engine.close())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("f16", [False, pytest.param(True, marks=needs_f16)], ids=["float32", "float16"])
@pytest.mark.parametrize("name", ["small", "medium"])
def test_fifty_steps_drift_less_than_a_thousandth_from_native_and_torch(name, f16):
    config = preset(name)
    losses = np.array([row.loss for row in Run(config, webgpu(config, f16=f16)).advance(50)])
    for other in (native_engine(config), TorchEngine(config, device="cpu", threads=1)):
        expected = np.array([row.loss for row in Run(config, other).advance(50)])
        drift = (np.abs(losses - expected) / expected).max()
        print(f"{name}, f16 {f16}, against {other.name}: {drift:.2e}")
        assert drift < (2e-3 if f16 else 1e-3)
    assert losses[-1] < losses[0] - 0.5
