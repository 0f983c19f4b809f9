"""Core in the tab, over the page's GPU player: blocks are asked for before those before them are read."""

import json

import pytest

from tinygpt.core.corpus import train_bytes
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.webgpu_chromium import WebGpuChromiumMachine

TEXT = "The quick brown fox jumps over the lazy dog. " * 40
LEAST = {"layers": 1, "d_model": 35, "heads": 5, "ctx": 9, "batch": 2}  # SwiftShader compiles odd sizes soonest
CHANGES = {**LEAST, "eval_every": 17, "eval_batches": 2, "lr": 0.003}

# Trains until the page stops it, then on from there until it does again. Each look at the clock takes 4 ms, so that a
# block is some steps.
SESSION = """
const { startPython, bridge } = await import("/worker/python.ts");
const { Gpu } = await import("/players/gpu.ts");
const { GpuPlayer } = await import("/players/gpuplayer.ts");
const { WasmPlayer } = await import("/players/wasmplayer.ts");
const python = await startPython(await (await fetch("/python.json")).json(), "/micropython/micropython.wasm");
const kernels = async (file) => (await fetch("/kernels/" + file)).arrayBuffer();
const shaders = async (file) => (await fetch("/kernels/" + file)).text();
const text = new TextEncoder().encode(TEXT);
const gpu = await Gpu.open();
const steps = [], log = [];
let player, lastStep, clock = 0;
const page = {
  open: async (playbook) => {
    player = await GpuPlayer.create(gpu, JSON.parse(playbook), shaders);
    const made = bridge(player, () => false, () => undefined);
    return {
      ...made,
      run: (mode, times) => (log.push(mode), made.run(mode, times)),
      read: (at) => made.read(at).finally(() => log.push("read")),
    };
  },
  startValues: async (playbook, places) => {
    const drawing = await WasmPlayer.create(JSON.parse(playbook), { kernels, threads: 1 });
    await drawing.run("init", 1);
    return drawing.read(JSON.parse(places));
  },
  now: () => (clock += 0.004),
  emit: (event) => steps.push(...(JSON.parse(event).rows ?? [])),
  stopping: () => (steps.at(-1)?.[0] ?? 0) >= lastStep,
  waiting: () => false,
  requests: () => "[]",
};
const asked = { preset: "tiny", recipe: "classic", changes: CHANGES, bytes: text.length, device: gpu.facts() };
const session = python.session.Session(JSON.stringify(asked));
const { trainBytes } = JSON.parse(session.plan());
await session.open(page, text.subarray(0, trainBytes), text.subarray(trainBytes), null);
const ended = [];
for (lastStep of [5, 18]) ended.push(JSON.parse(await session.train()));
const weights = await player.read(JSON.parse(await session.state_places()));
player.close();
return { ended, steps, log, state: Array.from(weights) };
"""


@pytest.mark.slow
def test_a_run_that_is_asked_for_ahead_is_the_one_that_is_waited_for(gpu_chromium):
    given = f"const TEXT = {json.dumps(TEXT)}, CHANGES = {json.dumps(CHANGES)};"
    made = gpu_chromium.ask("evaluate", code=given + SESSION)[0]["value"]
    first, second = made["ended"]
    assert (first["reason"], second["reason"]) == ("stopped", "stopped") and 5 <= first["step"] < 18 <= second["step"]
    assert made["log"][: made["log"].index("read")].count("train") == 3  # all were asked for, then one was read

    engine = terminal_engine(preset("tiny").replace(**CHANGES), WebGpuChromiumMachine(runner=gpu_chromium))
    text = TEXT.encode()
    count = train_bytes(len(text), engine.config.train.val_fraction)
    run_now(engine.load_corpus(text[:count], text[count:]))
    assert run_now(engine.train(second["step"])) == second["step"]
    assert [row[:3] for row in made["steps"]] == [list(metrics) for metrics in run_now(engine.read_metrics())]
    assert bytes(made["state"]) == run_now(engine.player.read(engine.file_places()))
    run_now(engine.close())
