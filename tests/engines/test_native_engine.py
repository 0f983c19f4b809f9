"""The C++ engine against the spec and PyTorch, against itself with other threads and vectors, and against bad input."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig, preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.sampler import generate
from tinygpt.core.trainer import run_now
from tinygpt.engines import machine
from tinygpt.engines.native import NativeEngine, cpu_lanes
from tinygpt.engines.spec import SpecEngine
from tinygpt.kernels import build
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import TorchEngine

SMALL_ODD = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=3)
LANES = [lanes for lanes in (4, 8, 16) if lanes <= cpu_lanes()]


def torch_engine(config):
    return TorchEngine(config, device="cpu", threads=1)


def state_bytes(engine):
    state = run_now(engine.export_state())
    return b"".join(part.tobytes() for part in state[1:])


def test_it_starts_from_the_bytes_of_the_specification():
    for seed in (0, 1337, 2**32 - 1):
        config = SMALL_ODD.replace(seed=seed)
        assert run_now(NativeEngine(config).export_state()).w.tobytes() == initial_weights(config.model, seed).tobytes()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("grad_accum", [1, 2])
def test_it_trains_as_the_spec_does(lanes, grad_accum):
    config = SMALL_ODD.replace(grad_accum=grad_accum)
    result = parity(config, NativeEngine(config, lanes=lanes), SpecEngine(config, dtype=np.float64), steps=10)
    assert result.drift < 1e-6


@pytest.mark.parametrize("name", ["small", "medium"])
def test_fifty_steps_drift_less_than_a_thousandth_from_torch(name):
    config = preset(name)
    result = parity(config, NativeEngine(config, threads=2), torch_engine(config), steps=50)
    assert result.drift < 1e-3
    assert result.losses[-1][0] < result.losses[0][0] - 0.5  # it did train


@pytest.mark.parametrize("lanes", LANES)
def test_any_number_of_threads_gives_the_same_bytes(lanes):
    digests = []
    for threads in (1, 2, 3, 2):
        config = preset("tiny").replace(heads=3, ctx=50, batch=5)
        engine = NativeEngine(config, threads=threads, lanes=lanes)
        losses = [metrics.loss for metrics in Run(config, engine).advance(5)]
        digests.append(hashlib.sha256(state_bytes(engine) + np.array(losses).tobytes()).hexdigest())
        run_now(engine.close())
    assert len(set(digests)) == 1


def test_the_overfit_gate():
    """One batch of random bytes whose windows begin differently: a model that can learn, learns it by heart."""
    config = preset("small").replace(lr=3e-3)
    engine = NativeEngine(config, threads=2)
    rows, ctx = config.train.batch, config.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    run_now(engine.load_corpus(text.tobytes() + b"\0", b""))
    offsets = [row * (ctx + 1) for row in range(rows)]
    losses = []
    for step in range(1, 151):
        run_now(engine.train_step(step, config.train.lr, offsets))
        losses += [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[0] < 5.7
    assert losses[-1] < 0.01


def test_a_run_moves_between_engines_and_back():
    """torch, then native, then torch: the optimizer's state moves along, so the losses stay those of torch alone."""
    config = preset("tiny")
    straight = Run(config, torch_engine(config))
    expected = [metrics.loss for metrics in straight.advance(30)]
    state, step, losses = None, 0, []
    for make in (torch_engine, NativeEngine, torch_engine):
        engine = make(config)
        run = Run(config, engine)
        if state is not None:
            run_now(engine.import_state(state))
            run.step = step
        losses += [metrics.loss for metrics in run.advance(10)]
        state, step = run_now(engine.export_state()), run.step
    assert state.step == 30
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(state.w, run_now(straight.engine.export_state()).w, atol=1e-4)


def test_generation_equals_torchs():
    config = preset("tiny")
    engines = [NativeEngine(config), torch_engine(config)]
    texts = [run_now(generate(engine, config.model.ctx, b"To be", SampleConfig(tokens=100))) for engine in engines]
    assert texts[0] == texts[1]
    window = bytes(range(32))
    a, b = (run_now(engine.prefill(window)) for engine in engines)
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_no_interrupt_hangs_it_or_spoils_what_it_computes_next():
    storm = Path(__file__).with_name("interrupt_storm.py")
    subprocess.run([sys.executable, "-W", "ignore", str(storm), "400"], timeout=60, check=True)


def test_a_crew_ends_with_its_engine_closed_or_not():
    before = threading.active_count()
    for close in (True, False):
        engine = NativeEngine(SMALL_ODD, threads=3)
        run_now(engine.prefill(b"a"))
        members = engine.crew.threads
        assert threading.active_count() == before + 3
        if close:
            run_now(engine.close())
        del engine
        for thread in members:
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.parametrize("threads", [0, -1, 65])
def test_a_senseless_number_of_threads_is_refused(threads):
    with pytest.raises(TinyGPTError, match="threads must be from 1 to 64"):
        NativeEngine(SMALL_ODD, threads=threads)


def test_a_model_that_does_not_fit_is_refused_with_both_figures(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10 * 2**20)
    with pytest.raises(TinyGPTError, match=r"needs 0\.[0-9] GiB of memory, but 0\.0 GiB are available"):
        NativeEngine(preset("medium"))


def test_the_copies_of_a_checkpoint_are_counted_where_one_will_be_made(monkeypatch):
    config = preset("tiny")
    engine = NativeEngine(config)
    trained = run_now(engine.export_state())
    arena, copies = engine.bytes, 3 * trained.w.nbytes
    monkeypatch.setattr(machine, "available_memory", lambda: arena + copies - 1)
    for state in (None, trained):
        with pytest.raises(TinyGPTError, match="GiB of memory"):
            NativeEngine(config, state)
    NativeEngine(config, trained._replace(m=None, v=None))


def test_a_state_of_another_model_is_refused():
    state = run_now(NativeEngine(SMALL_ODD).export_state())
    with pytest.raises(TinyGPTError, match="parameters, but this model has"):
        run_now(NativeEngine(preset("tiny")).import_state(state))


COPY_THE_SOURCE = [sys.executable, "-c", "import sys, shutil; shutil.copyfile(sys.argv[3], sys.argv[5])"]  # a compiler
COMPILE = "from tinygpt.kernels.build import compile_kernels; compile_kernels(4)"


def compile_in(cache):
    return subprocess.run(
        [sys.executable, "-c", COMPILE], env={**os.environ, "TINYGPT_CACHE": str(cache)}, capture_output=True, text=True
    )


def test_the_kernels_compile_from_nothing_and_then_come_from_the_cache(tmp_path):
    assert compile_in(tmp_path).returncode == 0
    (library,) = (tmp_path / "kernels").glob("*.so")
    made = library.stat().st_mtime_ns
    time.sleep(0.01)
    assert compile_in(tmp_path).returncode == 0
    assert library.stat().st_mtime_ns == made
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == [library.name]


@pytest.mark.parametrize("damage", [lambda whole: whole[:5000], lambda whole: b"", lambda whole: whole[:-1] + b"!"])
def test_damaged_kernels_in_the_cache_are_compiled_anew(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path))
    library = build.cached("kernels-4", ".so", COPY_THE_SOURCE)
    whole = library.read_bytes()
    library.write_bytes(damage(whole))
    assert build.cached("kernels-4", ".so", COPY_THE_SOURCE) == library
    assert library.read_bytes() == whole and len(list(library.parent.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    done = compile_in(tmp_path / "taken")
    assert done.returncode != 0
    assert "TinyGPTError" in done.stderr.strip().splitlines()[-1]
    assert str(tmp_path / "taken") in done.stderr.strip().splitlines()[-1]
