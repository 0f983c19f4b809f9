"""What goes wrong ends in one clear sentence, and soon."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tinygpt.bench.workload import Run
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset
from tinygpt.engines import runner as runners
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.runner import Runner, find_chromium
from tinygpt.engines.wasm import WasmMachine

TINY = preset("tiny")


@pytest.fixture(params=["node", "chromium"])
def runner(request):
    return request.getfixturevalue(request.param)


def opened(kind, config=TINY, **options):
    """An engine that has its player."""
    engine = terminal_engine(config, WasmMachine(kind, **options))
    run_now(engine.require(["train_fed"]))
    return engine


def test_without_shared_memory_there_is_one_thread_and_it_says_so(chromium):
    alone = Runner("chromium", isolated=False)
    assert not alone.capabilities["isolated"]
    assert alone.capabilities["threads"] == 1
    assert "not cross-origin isolated" in alone.capabilities["note"]
    engine = opened("chromium", threads=2, runner=alone)
    assert engine.threads == 1
    assert "not cross-origin isolated" in engine.describe()
    losses = [metrics.loss for metrics in Run(TINY, engine).advance(3)]
    assert losses == [metrics.loss for metrics in Run(TINY, opened("chromium", runner=chromium)).advance(3)]
    alone.close()


def test_a_module_that_does_not_compile(runner):
    runner.kernels = {"relaxed-threads.wasm": b"\0asm\1\0\0\0 and then nonsense"}
    try:
        with pytest.raises(TinyGPTError, match=r"the kernels relaxed-threads\.wasm do not compile here: CompileError"):
            opened(runner.kind, threads=2, runner=runner)
    finally:
        runner.kernels = {}


def test_more_memory_than_there_can_be(runner):
    with pytest.raises(TinyGPTError, match=r"needs [0-9.]+ GB of memory, but WebAssembly has at most 17\.2 GB"):
        opened(runner.kind, preset("behemoth").replace(batch=64), runner=runner)


def test_memory_that_cannot_be_had(runner):
    code = """
        const { layOut, allocate } = await import(PATH);
        const Memory = WebAssembly.Memory;
        WebAssembly.Memory = function () { throw new RangeError("could not allocate memory"); };
        try { allocate(layOut({ programs: {}, buffers: [2 ** 30] }, 1, true), false); }
        catch (error) { return error.message; }
        finally { WebAssembly.Memory = Memory; }
    """
    path = "/players/memory.ts" if runner.kind == "chromium" else str(runners.WEB / "src" / "players" / "memory.ts")
    said = runner.ask("evaluate", code=code.replace("PATH", repr(path)))[0]["value"]
    assert said.startswith("this run needs 1.07 GB of memory, which cannot be had here (RangeError: could not allocate")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_thread_that_dies_ends_the_run_and_the_engine(runner, threads):
    """Its kernel is sent out of memory while the others wait for it at a barrier."""
    bad = Lowered(TINY, ["train_fed"]).playbook()
    bad["programs"]["train_fed"]["words"][3] = 2**25 - 1  # where `embed` finds its table
    player = runner.ask("open", playbook=bad, threads=threads)[0]["player"]
    for _ in range(2):  # and it stays dead
        with pytest.raises(TinyGPTError, match="out of bounds"):
            runner.ask("run", player=player, mode="train_fed", times=1)
    assert opened(runner.kind, threads=2, runner=runner).threads == 2  # a new one works


@pytest.mark.parametrize("kind", ["node", "chromium"])
def test_a_runner_that_is_killed(kind, chromium):
    engine = opened(kind)
    os.killpg(engine.machine.runner.process.pid, signal.SIGKILL)
    with pytest.raises(TinyGPTError, match=f"the {kind} runner ended with status"):
        run_now(engine.export_state())


ORPHAN = """
import os, sys, time
from tinygpt.engines.runner import Runner
print(Runner(sys.argv[1]).process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kind", ["node", "chromium"])
def test_a_runner_does_not_outlive_us(kind, chromium):
    done = subprocess.run([sys.executable, "-c", ORPHAN, kind], capture_output=True, text=True)
    group = int(done.stdout)
    for _ in range(3000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("it was still there after 300 s")


def test_a_browser_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(runners.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TINYGPT_CHROMIUM", raising=False)
    monkeypatch.setattr(runners.shutil, "which", lambda name: None)
    assert find_chromium() is None
    with pytest.raises(TinyGPTError, match="Chromium is missing"):
        Runner("chromium")
    assert not list(tmp_path.iterdir())
