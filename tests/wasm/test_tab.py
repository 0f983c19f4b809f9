"""Python in the tab: MicroPython in Chromium plans what CPython plans, and trains as CPython does."""

import json
import random

import numpy as np
import pytest
from recording import START, evaluate

import tinygpt
from tinygpt.core.config import RunConfig
from tinygpt.core.corpus import train_bytes
from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.parameters import parameters
from tinygpt.core.models.programs import training_modes
from tinygpt.core.optimizers import slot_names
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset, preset_names, recipe_names
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Trainer
from tinygpt.data import Corpus
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.runner import Runner
from tinygpt.engines.wasm import WasmMachine
from tinygpt.store.formats.tinygpt_file import load_tinygpt

TEXT = b"The quick brown fox jumps over the lazy dog. " * 300
CHANGES = {"steps": 30, "eval_every": 10, "sample_every": 15, "lr": 0.003, "warmup": 5, "seed": 4294967295}
NGRAMS = {"ngrams": "2,3", "ngram_rows": 256, "ngram_width": 4}
WITH_NGRAMS = {**CHANGES, **NGRAMS, "windows": "shuffled"}

PROGRAMS = """
const texts = [];
for (const { preset, recipe, changes } of CONFIGS) {
  const session = python.session.Session(JSON.stringify({ preset, recipe, changes, bytes: BYTES }));
  session.plan();
  const page = { open: async (playbook) => { texts.push(JSON.parse(playbook)); throw new Error("seen"); } };
  await session.open(page, null, null, null).catch(() => undefined);
}
return texts;
"""
SESSION = """
const { WasmPlayer } = await import("/players/wasmplayer.ts");
const { ModelFile, writeAdapterFile, writeModelFile } = await import("/worker/modelfile.ts");
const kernels = async (file) => (await fetch("/kernels/" + file)).arrayBuffer();
const text = new TextEncoder().encode(TEXT);
const events = [];
let file = null;

async function run(request, state, requests, lastStep, base = null) {
  const session = python.session.Session(JSON.stringify({ recipe: "", bytes: text.length, ...request }));
  const plan = JSON.parse(session.plan());
  let step = 0, clock = 0, fault = null, player = null;
  const body = async () => player.read(JSON.parse(await session.state_places()));
  const page = {
    open: async (playbook) => {
      player = await WasmPlayer.create(JSON.parse(playbook), { kernels, threads: 2 });
      return bridge(player, () => false, (error) => (fault = error));
    },
    now: () => clock++,  // every block takes long, so it has a single step
    emit: (event) => {
      events.push(JSON.parse(event));
      step = events.at(-1).rows?.at(-1)[0] ?? step;
    },
    stopping: () => step >= lastStep,
    waiting: () => false,
    requests: () => JSON.stringify(step === 3 ? requests.splice(0) : []),
    save: async (header, places) => {
      const stated = JSON.parse(header), floats = await player.read(JSON.parse(places));
      file = stated.tensors ? writeAdapterFile(stated, floats) : await writeModelFile(stated, stated.rng.step, floats);
    },
    keep: async () => "null",
    written: (piece) => events.push({ event: "written", piece: JSON.parse(piece) }) > 0,
    weighed: (answer) => void events.push({ event: "weighed", answer: JSON.parse(answer) }),
    refused: (message) => void events.push({ event: "refused", message }),
  };
  await session.open(page, text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes), state, base);
  const ended = JSON.parse(await session.train());
  const left = ended.reason === "diverged" ? { floats: Array.from(new Float32Array((await body()).buffer)) } : {};
  player.close();
  return { ended, fault: fault && String(fault), ...left };
}
"""
BYTES = 100000000


def random_changes(seed):
    draw = random.Random(seed)
    heads = draw.randint(1, 9)
    return {
        "heads": heads,
        "d_model": heads * draw.randint(1, 40),
        "layers": draw.randint(1, 3),
        "ctx": draw.randint(1, 300),
        "batch": draw.randint(1, 33),
        "grad_accum": draw.choice([1, 1, 2, 5]),
        "seed": draw.randrange(2**32),
        "beta2": draw.random() * 0.9999,
        "eps": 10 ** draw.uniform(-12, 0),
        "grad_clip": draw.choice([0.0, draw.random()]),
    }


@pytest.mark.parametrize("presets, drawn", [(2, 12), pytest.param(None, 100, marks=pytest.mark.slow)])
def test_programs_are_those_of_cpython(chromium, presets, drawn):
    configs = [
        {"preset": name, "recipe": recipe, "changes": {}}
        for name in preset_names()[:presets]
        for recipe in recipe_names()
    ]
    configs += [{"preset": "small", "recipe": "classic", "changes": random_changes(seed)} for seed in range(drawn)]
    made = evaluate(chromium, PROGRAMS, CONFIGS=configs, BYTES=BYTES)
    for asked, got in zip(configs, made, strict=True):
        config = preset(asked["preset"], asked["recipe"]).replace(**asked["changes"])
        train = train_bytes(BYTES, config.train.val_fraction)
        modes = [*training_modes(config, BYTES - train), "reset"]
        expected = Lowered(config, modes, train, BYTES - train, kept=slot_names(config.train)).playbook()
        assert json.dumps(got, sort_keys=True) == json.dumps(expected, sort_keys=True), asked


class Recorder(Host):
    """Its clock is that of the page above: what depends on it is the same in both."""

    def __init__(self):
        self.events = []
        self.clock = -1

    def now(self):
        self.clock += 1
        return self.clock

    def emit(self, event):
        self.events.append(event)


def cpython_events(config: RunConfig, node, base=None) -> list:
    train, val = Corpus("test", TEXT, "").split(config.train.val_fraction)
    engine = terminal_engine(config, WasmMachine("node", threads=2, runner=node), base=base)
    run_now(engine.load_corpus(train, val))
    host = Recorder()
    assert run_now(Trainer(config, engine, host, len(train), len(val)).run()) == "finished"
    return host.events


def essence(events):
    """Events without the clock's, and without checkpoints, whose moments the host chooses."""
    kept = []
    for event in events:
        if event["event"] == "steps":
            names = ("step", "loss", "grad_norm", "lr")
            kept += [{"event": "step", **dict(zip(names, row, strict=True))} for row in event["rows"]]
        elif event["event"] not in ("written", "weighed", "refused", "checkpoint"):
            kept.append({k: v for k, v in event.items() if k not in ("tokens_per_s", "eta_s")})
    return kept


@pytest.fixture(scope="module")
def in_cpython(node):
    return essence(cpython_events(preset("tiny").replace(**WITH_NGRAMS), node))


def test_the_loop_does_in_the_tab_what_it_does_in_the_terminal(chromium, in_cpython):
    request = {"preset": "tiny", "recipe": "classic", "changes": WITH_NGRAMS}
    result, events = evaluate(
        chromium, SESSION, "return [await run(REQUEST, null, [], 1e9), events];", TEXT=TEXT.decode(), REQUEST=request
    )
    assert result == {"ended": {"reason": "finished", "step": 30}, "fault": None}
    assert essence(events) == in_cpython


def test_a_file_saved_in_the_tab_is_read_here_and_goes_on_there(chromium, in_cpython, tmp_path):
    """Stopped at step 12, saved, loaded again: the events are those of a run that was never stopped."""
    greedy = {"prompt": list(b"The"), "settings": {"tokens": 9, "temperature": 0}}
    requests = [{"type": "save"}, {"type": "write", **greedy}, {"type": "weigh", **greedy, "settings": {}}]
    code = """
        const first = await run(REQUEST, null, ASKED, 12);
        const saved = await ModelFile.open(file, python.file);
        const bytes = Array.from(file);
        const count = events.length;
        const second = await run({ changes: {}, preset: "", origin: saved.origin }, saved.body(), [], 1e9);
        return { first, second, before: events.slice(0, count), after: events.slice(count), bytes };
    """
    request = {"preset": "tiny", "recipe": "classic", "changes": WITH_NGRAMS}
    made = evaluate(chromium, SESSION, code, TEXT=TEXT.decode(), REQUEST=request, ASKED=requests)
    assert made["first"]["ended"] == {"reason": "stopped", "step": 12}
    assert made["second"] == {"ended": {"reason": "finished", "step": 30}, "fault": None}
    pieces = [event["piece"] for event in made["before"] if event["event"] == "written"]
    assert [piece[2] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    (weighed,) = [event["answer"] for event in made["before"] if event["event"] == "weighed"]
    after_save = [event for event in in_cpython if event["step"] > 3 and event["event"] == "step"]
    assert [event for event in essence(made["after"]) if event["event"] == "step"] == after_save

    (tmp_path / "tab.tinygpt").write_bytes(bytes(made["bytes"]))
    checkpoint = load_tinygpt(tmp_path / "tab.tinygpt")
    assert checkpoint.config == preset("tiny").replace(**WITH_NGRAMS) and checkpoint.state.tables.rows.any()
    assert (checkpoint.state.step, checkpoint.progress.step, checkpoint.backend) == (3, 3, "wasm")

    written = [byte for bytes_made, _, _ in pieces for byte in bytes_made]
    model = tinygpt.load(tmp_path / "tab.tinygpt", engine="native")
    assert bytes(written).decode() == model.generate("The", tokens=9, temperature=0)
    assert weighed[0][0] == written[0] and len(weighed) == 256
    assert sum(p for _, p in weighed) == pytest.approx(1) and weighed == sorted(weighed, key=lambda row: -row[1])


def test_after_a_divergence_the_engine_has_the_state_of_the_step_that_is_named(chromium, node):
    """Here the start values, drawn again: nothing was kept yet."""
    request = {"preset": "tiny", "recipe": "classic", "changes": {"lr": 10.0, "steps": 50}}
    made = evaluate(chromium, SESSION, "return run(REQUEST, null, [], 1e9);", TEXT=TEXT.decode(), REQUEST=request)
    assert made["ended"]["reason"] == "diverged" and made["ended"]["step"] == 0
    assert made["ended"]["message"].endswith("The model as of step 0 is kept")
    engine = terminal_engine(preset("tiny"), WasmMachine("node", threads=2, runner=node))
    start = run_now(engine.export_state())
    floats = np.float32(made["floats"])
    for row in parameters(preset("tiny").model):
        w, moments = np.split(floats[3 * row.offset : 3 * (row.offset + row.size)], [row.size])
        assert np.array_equal(w, start.w[row.offset : row.offset + row.size])
        assert not moments.any()


@pytest.mark.parametrize(
    "request_, message",
    [
        ({"preset": "small", "recipe": "fast", "changes": {}}, "there is no recipe 'fast'; there are modern, classic"),
        ({"preset": "smal", "recipe": "classic", "changes": {}}, "there is no preset 'smal'; did you mean 'small'?"),
        (
            {"preset": "small", "recipe": "classic", "changes": {"layers": 65}},
            "this model has 65 layers, and a tab plans at most 64",
        ),
        ({"preset": "small", "recipe": "classic", "changes": {"d_model": 97}}, "width 97 is not divisible by 3 heads"),
        (
            {"preset": "small", "recipe": "classic", "changes": {"ctx": 100000}},
            "context + 1 = 100001; use a longer text, a smaller context, or a smaller held-out",
        ),
    ],
)
def test_a_wrong_wish_is_answered_with_cores_own_sentence(chromium, request_, message):
    code = """
        const { lastLine } = await import("/worker/answers.ts");
        const request = JSON.stringify({ bytes: 5000, ...REQUEST });
        try { python.session.Session(request).plan(); } catch (error) { return lastLine(error); }
    """
    assert evaluate(chromium, code, REQUEST=request_).startswith(message) or message in evaluate(
        chromium, code, REQUEST=request_
    )


@pytest.mark.slow
def test_pythons_heap_is_as_small_as_the_plan():
    """It is swept at every step, so it has room for a large model's plan only once there was one.

    In a browser of its own: two interpreters in one realm spoil each other.
    """
    code = """
        const heap = () => {
          try { python.run("import gc\\nraise ValueError(gc.mem_alloc() + gc.mem_free())"); }
          catch (error) { return Number(error.message.trim().split(" ").at(-1)); }
        };
        const heaps = [];
        for (const preset of ["small", "behemoth"]) {
          python.session.Session(JSON.stringify({ bytes: 5000, preset, recipe: "classic", changes: {} })).plan();
          heaps.push(heap());
        }
        return heaps;
    """
    browser = Runner("chromium")
    try:
        small, behemoth = browser.ask("evaluate", code=START + code)[0]["value"]
    finally:
        browser.close()
    assert small < 2**27 + 2**22 < behemoth  # MicroPython counts 2**27 bytes as free that it has not taken
