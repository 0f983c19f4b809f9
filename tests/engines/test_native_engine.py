"""The C++ engine's own: its vectors, its threads under interrupts, its memory, its compiled kernels.

What it does as every engine does is in test_conformance.py.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_lab import ODD, bytes_of, loaded, state_of, trained

from tinygpt.bench.parity import parity
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.engines import machine
from tinygpt.engines.native import NativePlayer, cpu_lanes, native_engine
from tinygpt.kernels import build
from tinygpt.reference.engine import TorchEngine

SMALL_ODD = preset("tiny").replace(**ODD)
LANES = [lanes for lanes in (4, 8, 16) if lanes <= cpu_lanes()]


@pytest.mark.parametrize("name", ["small", pytest.param("medium", marks=pytest.mark.slow)])
def test_fifty_steps_drift_less_than_a_thousandth_from_torch(name):
    config = preset(name)
    torch = TorchEngine(config, device="cpu", threads=1)
    result = parity(config, native_engine(config, threads=2), torch, steps=50)
    assert result.drift < 1e-3
    assert result.losses[-1][0] < result.losses[0][0] - 0.5  # it did train


@pytest.mark.parametrize("lanes", LANES)
def test_any_width_of_vectors_trains_alike_and_to_the_bit_with_any_threads(lanes):
    widest = trained(loaded(native_engine(SMALL_ODD, threads=1)), 5)
    runs = []
    for threads in (1, 2, 3, 8):
        engine = loaded(native_engine(SMALL_ODD, threads=threads, lanes=lanes))
        runs.append((trained(engine, 5), bytes_of(state_of(engine))))
        run_now(engine.close())
    assert runs[0] == runs[1] == runs[2]
    assert [row.loss for row in runs[0][0]] == pytest.approx([row.loss for row in widest], rel=1e-6)


# --- interrupts ----------------------------------------------------------------------------------------------


def test_no_interrupt_hangs_it_or_spoils_what_it_computes_next():
    storm = Path(__file__).with_name("interrupt_storm.py")
    subprocess.run([sys.executable, "-W", "ignore", str(storm), "400"], timeout=600, check=True)


def test_a_crew_ends_with_its_engine_closed_or_not():
    for close in (True, False):
        engine = native_engine(SMALL_ODD, threads=3)
        run_now(engine.prefill(b"a"))
        members = engine.player.crew.threads
        assert len(members) == 3 and all(thread.is_alive() for thread in members)
        if close:
            run_now(engine.close())
        del engine
        for thread in members:
            thread.join(10)
            assert not thread.is_alive()


# --- memory --------------------------------------------------------------------------------------------------


def test_a_model_that_does_not_fit_is_refused_with_both_figures(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10 * 2**20)
    with pytest.raises(TinyGPTError, match=r"needs 0\.[0-9] GiB of memory, but 0\.0 GiB are available"):
        loaded(native_engine(preset("medium")))


def test_memory_is_taken_for_what_is_asked_alone(monkeypatch):
    """A model that only writes has no gradients; what is asked for later lies on top."""
    sizes = []
    monkeypatch.setattr(NativePlayer, "describe", lambda player: str(player.bytes))
    for modes in (["prefill", "decode"], ["eval"], ["train_fed"]):
        engine = native_engine(SMALL_ODD)
        run_now(engine.require(modes))
        sizes.append(engine.player.bytes)
    assert sizes[0] < sizes[1] < sizes[2]


# --- kernels -------------------------------------------------------------------------------------------------

COPY_THE_SOURCE = [sys.executable, "-c", "import sys, shutil; shutil.copyfile(sys.argv[3], sys.argv[5])"]  # a compiler
COMPILE = "from tinygpt.kernels.build import compile_kernels; compile_kernels(4)"


def compile_in(cache):
    return subprocess.run(
        [sys.executable, "-c", COMPILE], env={**os.environ, "TINYGPT_CACHE": str(cache)}, capture_output=True, text=True
    )


@pytest.mark.slow  # a fresh machine does it, too
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
