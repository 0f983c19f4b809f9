"""The WebAssembly engines against native: start values, losses, bytes of the state; and against themselves."""

import hashlib

import numpy as np
import pytest

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig, preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.rng import eval_offsets
from tinygpt.core.sampler import generate
from tinygpt.core.trainer import run_now
from tinygpt.engines.native import NativeEngine
from tinygpt.engines.wasm import WasmEngine
from tinygpt.formats import Checkpoint
from tinygpt.formats.tinygpt_file import load_tinygpt, save_tinygpt

SMALL_ODD = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=3)


@pytest.fixture(params=["node", "chromium"])
def runner(request):
    return request.getfixturevalue(request.param)


def state_bytes(engine):
    return b"".join(part.tobytes() for part in run_now(engine.export_state())[1:])


@pytest.mark.parametrize("seed", [0, 1337, 2**32 - 1])
def test_it_starts_from_natives_bytes(runner, seed):
    config = SMALL_ODD.replace(seed=seed)
    engine = WasmEngine(config, runner.kind, runner=runner)
    assert state_bytes(engine) == state_bytes(NativeEngine(config))


@pytest.mark.parametrize("build", ["scalar", "simd"])
def test_every_build_starts_from_natives_bytes(node, build):
    assert state_bytes(WasmEngine(SMALL_ODD, "node", build=build, runner=node)) == state_bytes(NativeEngine(SMALL_ODD))


def test_fifty_steps_drift_less_than_a_thousandth_from_native(runner):
    config = preset("small" if runner.kind == "node" else "tiny")
    result = parity(config, WasmEngine(config, runner.kind, runner=runner), NativeEngine(config), steps=50)
    assert result.drift < 1e-3
    assert result.losses[-1][0] < result.losses[0][0] - 0.5  # it did train


@pytest.mark.parametrize("changes", [{}, {"grad_accum": 2}])
def test_an_odd_model_trains_as_natively(node, changes):
    config = SMALL_ODD.replace(**changes)
    for build in ("scalar", "simd", "relaxed"):
        engine = WasmEngine(config, "node", build=build, runner=node)
        assert parity(config, engine, NativeEngine(config), steps=10).drift < 1e-6


def test_any_number_of_threads_gives_the_same_bytes(runner):
    config = preset("tiny").replace(ctx=50, batch=5)
    digests = []
    for threads, force64 in ((1, False), (2, False), (3, False), (2, True)):
        engine = WasmEngine(config, runner.kind, threads=threads, force64=force64, runner=runner)
        assert engine.threads == threads
        losses = [metrics.loss for metrics in Run(config, engine).advance(5)]
        digests.append(hashlib.sha256(state_bytes(engine) + np.array(losses).tobytes()).hexdigest())
    assert len(set(digests)) == 1


def test_the_overfit_gate(runner):
    """One batch of random bytes whose windows begin differently: a model that can learn, learns it by heart."""
    config = preset("small").replace(lr=3e-3, batch=8, ctx=32)
    engine = WasmEngine(config, runner.kind, runner=runner)
    rows, ctx = config.train.batch, config.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    run_now(engine.load_corpus(text.tobytes() + b"\0", b""))
    for step in range(1, 151):
        run_now(engine.train_step(step, config.train.lr, [row * (ctx + 1) for row in range(rows)]))
    losses = [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[0] < 5.7
    assert losses[-1] < 0.01


def test_a_state_moves_to_native_and_back_byte_for_byte(runner, tmp_path):
    config = SMALL_ODD
    native = Run(config, NativeEngine(config))
    native.advance(3)
    state = run_now(native.engine.export_state())
    engine = WasmEngine(config, runner.kind, runner=runner)
    run_now(engine.import_state(state))
    for name, owner in (("native", native.engine), ("wasm", engine)):
        save_tinygpt(tmp_path / name, Checkpoint(config, run_now(owner.export_state())))
    assert (tmp_path / "wasm").read_bytes() == (tmp_path / "native").read_bytes()

    there = Run(config, engine)
    there.step = 3
    losses = [metrics.loss for metrics in there.advance(3)]
    np.testing.assert_allclose(losses, [metrics.loss for metrics in native.advance(3)], rtol=1e-6)
    save_tinygpt(tmp_path / "later", Checkpoint(config, run_now(engine.export_state())))
    back = NativeEngine(config)
    run_now(back.import_state(load_tinygpt(tmp_path / "later").state))
    assert state_bytes(back) == state_bytes(engine)
    assert run_now(back.export_state()).step == 6


def test_it_evaluates_and_generates_as_natively(runner):
    config = preset("tiny")
    engines = [WasmEngine(config, runner.kind, runner=runner), NativeEngine(config)]
    text = bytes(range(256)) * 8
    losses, texts = [], []
    for engine in engines:
        run_now(engine.load_corpus(text, text))
        losses.append(run_now(engine.eval_loss(eval_offsets(1, 21, len(text), config.model.ctx))))
        texts.append(run_now(generate(engine, config.model.ctx, b"To be", SampleConfig(tokens=50))))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("threads", [0, -1, 65])
def test_a_senseless_number_of_threads_is_refused(node, threads):
    with pytest.raises(TinyGPTError, match="threads must be from 1 to 64"):
        WasmEngine(SMALL_ODD, "node", threads=threads, runner=node)


def test_a_build_that_there_is_not_is_refused(node):
    with pytest.raises(TinyGPTError, match="must be one of auto, scalar, simd, relaxed, not 'simdd'"):
        WasmEngine(SMALL_ODD, "node", build="simdd", runner=node)


def test_a_state_of_another_model_is_refused(node):
    state = run_now(NativeEngine(SMALL_ODD).export_state())
    with pytest.raises(TinyGPTError, match="parameters, but this model has"):
        run_now(WasmEngine(preset("tiny"), "node", runner=node).import_state(state))
