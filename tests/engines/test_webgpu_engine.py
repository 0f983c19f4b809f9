"""The WGSL engine through wgpu-py against native and PyTorch, and against itself: small, for software is slow."""

import hashlib
import itertools
import math
from functools import cache

import numpy as np
import pytest
from gpu_here import MISSING, gpu_here, webgpu

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig, preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Device
from tinygpt.core.rng import eval_offsets
from tinygpt.core.sampler import generate
from tinygpt.core.trainer import Diverged, Host, Trainer, run_now
from tinygpt.engines.base import State
from tinygpt.engines.native import NativeEngine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import TorchEngine

if gpu_here() is None:
    pytest.skip(MISSING, allow_module_level=True)

from tinygpt.engines import webgpu as module
from tinygpt.engines.select import EngineChoice, make_engine

pytestmark = pytest.mark.xdist_group("wgpu")  # one worker has all the pipelines

ODD = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=2)  # the plain kernels
EVEN = preset("tiny").replace(layers=2, d_model=24, heads=2, ctx=36, batch=2)  # those for multiples of 4
MICRO = preset("tiny").replace(layers=1, d_model=16, heads=2, ctx=16, batch=2)
SHAPES = {"odd": ODD, "even": EVEN}
TEXT = np.random.default_rng(1).integers(0, 256, 2000, dtype=np.uint8).tobytes()


def native(config, state=None):
    return NativeEngine(config, state, threads=1)


def torch_engine(config):
    return TorchEngine(config, device="cpu", threads=1)


def metrics_and_state(config, engine, steps):
    return Run(config, engine).advance(steps), run_now(engine.export_state())


@cache
def reference(config_name, grad_accum, engine, steps):
    config = SHAPES[config_name].replace(grad_accum=grad_accum)
    return metrics_and_state(config, {"native": native, "torch": torch_engine}[engine](config), steps)


def digest(metrics, state):
    parts = b"".join(part.tobytes() for part in state[1:])
    return hashlib.sha256(parts + np.array(metrics).tobytes()).hexdigest()


def uneven_state(config):
    """Away from the start, where logits are all alike, but not where attention's sums are ill-conditioned."""
    return State(0, initial_weights(config.model, 3) * 4)


@pytest.mark.parametrize("name", SHAPES)
def test_it_starts_from_the_bytes_of_the_specification(name):
    for seed in (0, 2**32 - 1):
        config = SHAPES[name].replace(seed=seed)
        state = run_now(webgpu(config).export_state())
        assert state.w.tobytes() == initial_weights(config.model, seed).tobytes()
        assert state.step == 0 and not state.m.any() and not state.v.any()


@pytest.mark.parametrize("grad_accum", [1, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_it_trains_as_native_and_torch_do(name, grad_accum):
    config, steps = SHAPES[name].replace(grad_accum=grad_accum), 20 // grad_accum
    metrics, state = metrics_and_state(config, webgpu(config), steps)
    for engine in ("native", "torch"):
        expected, other = reference(name, grad_accum, engine, steps)
        assert [row.step for row in metrics] == list(range(1, steps + 1))
        np.testing.assert_allclose([row.loss for row in metrics], [row.loss for row in expected], rtol=1e-6)
        np.testing.assert_allclose([row.grad_norm for row in metrics], [row.grad_norm for row in expected], rtol=1e-5)
        np.testing.assert_allclose(state.w, other.w, atol=1e-5)
        np.testing.assert_allclose(state.m, other.m, atol=1e-6)
        np.testing.assert_allclose(state.v, other.v, atol=1e-7)
    assert metrics[-1].loss < metrics[0].loss - 0.05  # it did train


def test_accumulating_equals_a_larger_batch():
    parts = metrics_and_state(EVEN.replace(grad_accum=2), webgpu(EVEN.replace(grad_accum=2)), 5)
    whole = metrics_and_state(EVEN.replace(batch=4), webgpu(EVEN.replace(batch=4)), 5)
    np.testing.assert_allclose([row[1:] for row in parts[0]], [row[1:] for row in whole[0]], rtol=1e-6)
    np.testing.assert_allclose(parts[1].w, whole[1].w, atol=1e-5)


@pytest.mark.parametrize("limit", [0.0, 0.05])
def test_gradients_are_clipped_to_the_limit_or_not_at_all(limit):
    """After one step AdamW's first moment is (1 - beta1) times the gradient that it was given."""
    config = EVEN.replace(grad_clip=limit)
    metrics, state = metrics_and_state(config, webgpu(config), 1)
    norm = metrics[0].grad_norm
    assert norm > 0.5
    given = np.linalg.norm(state.m.astype(np.float64)) / (1 - config.train.beta1)
    assert given == pytest.approx(limit or norm, rel=1e-4)  # clipping divides by the norm + 1e-6
    expected, other = metrics_and_state(config, native(config), 1)
    assert norm == pytest.approx(expected[0].grad_norm, rel=1e-6)
    np.testing.assert_allclose(state.m, other.m, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", SHAPES)
def test_it_evaluates_as_native_does(name):
    config = SHAPES[name]
    state, answers = uneven_state(config), []
    windows = np.frombuffer(TEXT[:65], np.uint8).reshape(5, 13)  # the last batch is not full, nor is a window
    for engine in (webgpu(config, state), native(config, state)):
        run_now(engine.load_corpus(b"", TEXT))
        loss = run_now(engine.eval_loss(eval_offsets(1, 5, len(TEXT), config.model.ctx)))
        answers.append((loss, run_now(engine.window_losses(windows))))
    assert answers[0][0] == pytest.approx(answers[1][0], rel=1e-6)
    assert answers[0][1].shape == (5, 12)
    np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_its_logits_are_natives_and_so_is_its_text(name):
    config = SHAPES[name]
    state, logits, texts = uneven_state(config), [], []
    ctx = config.model.ctx
    for engine in (webgpu(config, state), native(config, state)):
        rows = [run_now(engine.prefill(TEXT[:prompt])) for prompt in (ctx, 1)]
        rows += [run_now(engine.decode(TEXT[i])) for i in range(1, ctx)]
        with pytest.raises(TinyGPTError, match=r"context of .* is full"):
            run_now(engine.decode(0))
        logits.append(np.array(rows))
        texts.append(run_now(generate(engine, ctx, b"To be", SampleConfig(tokens=20))))
    np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-5 * np.abs(logits[1]).max())
    np.testing.assert_allclose(logits[0][0], logits[0][-1], rtol=0, atol=1e-5 * np.abs(logits[1]).max())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("grad_accum", [1, 2])
def test_a_run_resumed_in_a_new_engine_goes_on_to_the_bit(grad_accum):
    config = EVEN.replace(grad_accum=grad_accum)
    straight = Run(config, webgpu(config))
    straight.advance(4)
    state = run_now(straight.engine.export_state())
    assert state.step == 4
    went_on, after = straight.advance(4), run_now(straight.engine.export_state())

    engine = webgpu(config)
    resumed = Run(config, engine)
    resumed.advance(1)  # so that nothing of it is as in a new one
    run_now(engine.import_state(state))
    resumed.step = state.step
    assert resumed.advance(4) == went_on
    assert digest(went_on, run_now(engine.export_state())) == digest(went_on, after)


@pytest.mark.parametrize("name", SHAPES)
def test_two_runs_are_the_same_bytes_and_another_seed_is_another_run(name):
    config = SHAPES[name]
    runs = [metrics_and_state(config, webgpu(config), 4) for _ in range(2)]
    assert digest(*runs[0]) == digest(*runs[1])
    state = runs[0][1]._replace(step=0)
    seeds = [Run(config.replace(seed=seed), webgpu(config.replace(seed=seed), state)).advance(1) for seed in (1, 2)]
    assert seeds[0][0].loss != seeds[1][0].loss  # the weights are the same, but not the batch


def test_the_overfit_gate():
    """One batch of random bytes whose windows begin differently: a model that can learn, learns it by heart."""
    config = preset("tiny").replace(layers=1, d_model=32, heads=2, ctx=16, batch=4)
    engine = webgpu(config)
    rows, ctx = config.train.batch, config.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    run_now(engine.load_corpus(text.tobytes() + b"\0", b""))
    for step in range(1, 101):
        run_now(engine.train_step(step, 0.01, [row * (ctx + 1) for row in range(rows)]))
    losses = [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[0] < 5.7
    assert losses[-1] < 0.01


def test_a_run_moves_between_engines_and_back():
    """native, then webgpu, then native: the losses stay those of native alone."""
    expected, _ = reference("even", 1, "native", 12)
    state, losses = None, []
    for make in (native, webgpu, native):
        engine = make(EVEN, state)
        run = Run(EVEN, engine)
        run.step = state.step if state else 0
        losses += [metrics.loss for metrics in run.advance(4)]
        state = run_now(engine.export_state())
    np.testing.assert_allclose(losses, [metrics.loss for metrics in expected], rtol=1e-6)


# --- metrics -------------------------------------------------------------------------------------------------


def send_steps(engine, steps):
    """Train without reading anything."""
    run_now(engine.load_corpus(TEXT, TEXT))
    for step in range(engine.step + 1, engine.step + steps + 1):
        run_now(engine.train_step(step, 1e-3, [step % 900, 1000 + step % 900]))


def test_metrics_come_in_bulk_and_none_is_lost_where_there_are_more_than_the_ring_holds():
    steps = 2 * module.RING + 7
    one_by_one, in_bulk = webgpu(MICRO), webgpu(MICRO)
    expected = []
    for _ in range(steps):
        send_steps(one_by_one, 1)
        expected += run_now(one_by_one.read_metrics())
    send_steps(in_bulk, steps)
    assert run_now(in_bulk.read_metrics()) == expected
    assert [row.step for row in expected] == list(range(1, steps + 1))
    assert len({row.loss for row in expected}) > steps // 2
    assert run_now(in_bulk.read_metrics()) == []


def test_evaluating_and_generating_in_between_leaves_unread_metrics_alone():
    plain, disturbed = webgpu(MICRO), webgpu(MICRO)
    send_steps(plain, 6)
    for _ in range(3):
        send_steps(disturbed, 2)
        run_now(disturbed.eval_loss([0, 5, 9]))
        run_now(disturbed.prefill(b"abc"))
        run_now(disturbed.decode(1))
        run_now(disturbed.export_state())
    assert run_now(plain.read_metrics()) == run_now(disturbed.read_metrics())


@pytest.mark.parametrize("seconds, every", [(2.0, 1), (0.09, 1), (0.02, 5), (0.005, 20), (1e-5, module.RING)])
def test_metrics_are_wanted_about_ten_times_a_second(seconds, every, monkeypatch):
    engine = webgpu(MICRO)
    assert engine.metrics_every == 1
    clock = itertools.count(engine.since, 8 * seconds)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    next(clock)
    for _ in range(2):
        send_steps(engine, 8)
        run_now(engine.read_metrics())
        assert engine.metrics_every == every


@pytest.mark.parametrize("where", ["w", "m"])
def test_a_weight_that_is_no_number_shows_and_ends_the_training(where):
    state = run_now(webgpu(MICRO).export_state())
    bad = getattr(state, where).copy()
    bad[len(bad) // 2] = np.nan
    engine = webgpu(MICRO, state._replace(**{where: bad}))
    send_steps(engine, 2)
    metrics = run_now(engine.read_metrics())
    assert math.isnan(metrics[0].loss) == (where == "w")
    assert math.isnan(metrics[1].loss) and math.isnan(metrics[1].grad_norm)

    class Clock(Host):
        now = staticmethod(itertools.count().__next__)

    run_now(engine.import_state(state._replace(**{where: bad})))
    with pytest.raises(Diverged, match="the loss is nan"):
        run_now(Trainer(MICRO, engine, Clock(), len(TEXT), len(TEXT)).run())


# --- limits and precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grad_accum", [1, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_small_limits_give_the_same_training(name, grad_accum, monkeypatch):
    """Several segments, several arenas: the same losses, and weights to the bit but for the norm's order of sums."""
    config = SHAPES[name].replace(grad_accum=grad_accum, grad_clip=0.0)
    metrics, state = metrics_and_state(config, webgpu(config), 3)
    describe = type(gpu_here()).describe

    def described(gpu) -> Device:
        device = describe(gpu)
        device.max_binding, device.max_buffer = 80 * 1024, 96 * 1024
        return device

    monkeypatch.setattr(type(gpu_here()), "describe", described)
    engine = webgpu(config)
    assert max(engine.recipe["buffers"]) <= 96 * 1024
    assert len(engine.lowered.segments) > 1 and engine.lowered.plan.owners.count("arena") > 3
    run = Run(config, engine)
    got = run.advance(3)
    assert [row.loss for row in got] == [row.loss for row in metrics]
    np.testing.assert_allclose([row.grad_norm for row in got], [row.grad_norm for row in metrics], rtol=1e-6)
    assert digest([], run_now(engine.export_state())) == digest([], state)
    answers = [(run_now(one.prefill(b"abc")), run_now(one.decode(7))) for one in (engine, webgpu(config, state))]
    assert answers[0] == answers[1]
    resumed = webgpu(config, state)
    assert digest([], run_now(resumed.export_state())) == digest([], state)


needs_f16 = pytest.mark.skipif("shader-f16" not in gpu_here().features, reason="this adapter has no float16")


@needs_f16
def test_float16_tiles_train_nearly_alike():
    plain, rounded = webgpu(EVEN), webgpu(EVEN, f16=True)
    assert "float32" in plain.describe() and "float16 tiles" in rounded.describe()
    result = parity(EVEN, rounded, plain, 20)
    assert 0 < result.drift < 2e-3


def test_it_is_had_by_name_and_says_what_it_runs_on():
    choice = EngineChoice("webgpu", gpu_here().name)
    engine = make_engine(MICRO, choice)
    assert engine.name == "webgpu" and gpu_here().name in engine.describe()
    assert ("not a GPU" in engine.describe()) == gpu_here().software
    assert Run(MICRO, engine).advance(2) == Run(MICRO, webgpu(MICRO)).advance(2)
    run_now(engine.close())


@pytest.mark.skipif("timestamp-query" not in gpu_here().features, reason="this adapter has no timestamps")
def test_every_op_has_its_time():
    engine = webgpu(MICRO)
    for mode in ("train", "decode"):
        profile = engine.profile(mode)
        assert [op for op, _ in profile] == engine.lowered.programs[mode].ops
        assert all(seconds >= 0 for _, seconds in profile) and sum(seconds for _, seconds in profile) > 0


# --- the long proofs -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("f16", [False, pytest.param(True, marks=needs_f16)], ids=["float32", "float16"])
@pytest.mark.parametrize("name", ["small", "medium"])
def test_fifty_steps_drift_less_than_a_thousandth_from_native_and_torch(name, f16):
    config = preset(name)
    metrics, _ = metrics_and_state(config, webgpu(config, f16=f16), 50)
    losses = np.array([row.loss for row in metrics])
    for make in (native, torch_engine):
        expected = np.array([row.loss for row in Run(config, make(config)).advance(50)])
        drift = (np.abs(losses - expected) / expected).max()
        print(f"{name}, f16 {f16}, against {make.__name__}: {drift:.2e}")
        assert drift < (2e-3 if f16 else 1e-3)
    assert losses[-1] < losses[0] - 0.5
