"""The WebAssembly engines' own: builds, and a stop in the page's player. All else is in test_conformance.py."""

import json
import struct

import pytest

from tinygpt.bench.parity import parity
from tinygpt.bench.workload import made_up_text
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.optimizers.adamw import rates_of
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset
from tinygpt.core.run.contract import run_now
from tinygpt.engines.base import TerminalEngine
from tinygpt.engines.native import native_engine
from tinygpt.engines.wasm import WasmMachine

SMALL_ODD = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=3)


@pytest.fixture(params=["node", "chromium"])
def runner(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def wasm(node):
    """Engines in Node, ended with the test."""
    made = []

    def make(config, runner=node, **options):
        made.append(TerminalEngine(config, WasmMachine(runner.kind, runner=runner, **options)))
        return made[-1]

    yield make
    for engine in made:
        run_now(engine.close())


def state_bytes(engine):
    state = run_now(engine.export_state())
    return b"".join(part.tobytes() for part in (state.w, *state.slots.values()))


@pytest.mark.parametrize("build", ["scalar", "simd", "relaxed"])
@pytest.mark.parametrize("changes", [{}, {"grad_accum": 2}])
def test_every_build_starts_from_natives_bytes_and_trains_as_natively(wasm, build, changes):
    config = SMALL_ODD.replace(**changes)
    engine = wasm(config, build=build)
    assert state_bytes(engine) == state_bytes(native_engine(config))
    assert parity(config, engine, native_engine(config), steps=10).drift < 1e-6


def test_fifty_steps_drift_less_than_a_thousandth_from_native(wasm, runner):
    config = preset("small" if runner.kind == "node" else "tiny")
    result = parity(config, wasm(config, runner), native_engine(config), steps=50)
    assert result.drift < 1e-3
    assert result.losses[-1][0] < result.losses[0][0] - 0.5  # it did train


# Two players, one of which is stopped; the other runs as often as the first was done.
STOPPED = """
    const { WasmPlayer } = await import("/engine/wasmplayer.ts");
    const kernels = async (file) => (await fetch("/kernels/" + file)).arrayBuffer();
    const open = async () => {
      const player = await WasmPlayer.create(GIVEN.playbook, { kernels, threads: GIVEN.threads });
      await player.run("init", 1);
      for (const [places, bytes] of GIVEN.inputs) await player.write(places, new Uint8Array(bytes));
      return player;
    };
    const [stopped, whole] = [await open(), await open()];
    const running = stopped.run("train", 100000);
    setTimeout(() => { globalThis.asked = performance.now(); stopped.stop(); }, 100);
    const done = await running;
    const waited = performance.now() - asked;
    await whole.run("train", done);
    const same = async (places) => {
      const [a, b] = [await stopped.read(places), await whole.read(places)];
      return a.every((byte, i) => byte === b[i]);
    };
    const counters = new Int32Array((await stopped.read(GIVEN.counters)).buffer);
    const result = { done, waited, counted: counters[0], same: await same(GIVEN.kept) };
    stopped.close();
    whole.close();
    return result;
"""


@pytest.mark.parametrize("threads", [2, 3])
def test_a_stop_is_heard_at_once_and_leaves_no_half_step(chromium, threads):
    text = made_up_text()[:3001]
    config = SMALL_ODD.replace(batch=16)
    lowered = Lowered(config, ["init", "train"], len(text), 0)
    tensors = {tensor.name: tensor for tensor in lowered.tensors}

    def places(name):
        return lowered.places(tensors[name], 0, tensors[name].size)

    rates = [rate for _ in range(64) for rate in rates_of(config.train, 1)]
    packed = list(struct.pack(f"<{len(rates)}f", *rates))
    given = {
        "playbook": lowered.playbook(),
        "threads": threads,
        "inputs": [[places("train_text"), list(text)], [places("rates"), packed]],
        "counters": places("counters"),
        "kept": [place for name in ("weights", "m", "v", "counters", "ring") for place in places(name)],
    }
    got = chromium.ask("evaluate", code=f"const GIVEN = {json.dumps(given)};\n{STOPPED}")[0]["value"]
    assert 0 < got["done"] < 100000 and got["counted"] == got["done"] and got["same"]
    assert got["waited"] < 2000  # an op's time; the machine may be busy


def test_a_build_that_there_is_not_is_refused(wasm):
    with pytest.raises(TinyGPTError, match="must be one of auto, scalar, simd, relaxed, not 'simdd'"):
        wasm(SMALL_ODD, build="simdd")
