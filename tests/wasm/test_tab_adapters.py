"""Adapters in the tab: trained there as in the terminal, on a base that stays as it is; files that either opens."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from format_samples import sample_checkpoint
from recording import evaluate
from test_tab import CHANGES, NGRAMS, SESSION, TEXT, Recorder, cpython_events, essence

from tinygpt.core.config import LoraConfig, ModelConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import adapting
from tinygpt.core.train.trainer import Trainer
from tinygpt.data import Corpus
from tinygpt.engines.base import Tables, terminal_engine
from tinygpt.engines.wasm import WasmMachine
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt
from tinygpt.store.formats.adapter_file import Adapter, load_adapter, merged_weights, save_adapter
from tinygpt.store.formats.checkpoint import state_sha256

LORA = {"rank": 3, "alpha": 5.0, "targets": "q_proj,o_proj,fc_in"}
MODEL = ModelConfig(layers=2, d_model=12, heads=2, ctx=9, **NGRAMS)
WITH_BASE = """
const { baseOf, merged } = await import("/worker/adapters.ts");
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const textOf = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
const found = await baseOf(await ModelFile.open(bytesOf(BASE), python.file), "a base", python.file);
const base = { config: found.config, sha256: found.sha256 };
const weights = new Uint8Array(found.weights.buffer);
"""
TRAIN = """
const request = { preset: "", recipe: "", changes: CHANGES, lora: LORA, base, title: "taught" };
const made = await run(request, null, [{ type: "save" }], 1e9, weights);
const adapter = await ModelFile.open(file, python.file);
const both = merged(found, adapter.weights(), adapter.front.config, python.file);
const parts = { base: textOf(found.bytes), file: textOf(file), merged: textOf(new Uint8Array(both.buffer)) };
return { made, events, sha256: found.sha256, ...parts };
"""
GO_ON = """
const adapter = await ModelFile.open(bytesOf(FILE), python.file);
const { origin } = adapter;
const asked = { preset: "", recipe: "", changes: {}, base };
const told = [await run({ ...asked, origin }, adapter.body(), [], 1e9, weights)];
const smaller = { ...base, config: { ...base.config, model: { ...base.config.model, ctx: 8 } } };
for (const bad of [
  { ...asked, origin, base: { ...base, sha256: "ab".repeat(32) } },
  { ...asked, origin, base: smaller },
  { ...asked, lora: LORA, changes: { layers: 3 } },
  { ...asked, lora: LORA, base: { ...base, config: origin.config } },
]) await run(bad, adapter.body(), [], 1e9, weights).catch((error) => told.push(error.message));
return { told, events };
"""


@pytest.mark.slow
def test_adapters_are_trained_as_in_the_terminal_and_their_files_go_both_ways(chromium, node, tmp_path):
    file = tmp_path / "base.tinygpt"
    sample = sample_checkpoint(MODEL)
    rows = np.random.default_rng(5).normal(0, 0.3, (512, 4)).astype(np.float32)
    save_tinygpt(file, replace(sample, state=sample.state._replace(tables=Tables(rows, np.ones(512, np.float32)))))
    given = base64.b64encode(file.read_bytes()).decode()
    base = load_tinygpt(file)
    config = adapting(base.config, LoraConfig(**LORA)).replace(**CHANGES)
    values = {"TEXT": TEXT.decode(), "CHANGES": CHANGES, "LORA": LORA, "BASE": given}
    made = evaluate(chromium, SESSION, WITH_BASE, TRAIN, **values)
    assert made["made"] == {"ended": {"reason": "finished", "step": 30}, "fault": None}
    before, *after = essence(made["events"])
    expected = essence(cpython_events(config, node, base.state))
    assert after == expected
    losses = [event["val_loss"] for event in after if event["event"] == "eval"]
    assert before["event"] == "base" and 0 < losses[-1] < before["val_loss"]

    assert made["sha256"] == state_sha256(base.state)
    (tmp_path / "kept.tinygpt").write_bytes(base64.b64decode(made["base"]))
    kept = load_tinygpt(tmp_path / "kept.tinygpt")  # what the page keeps of the base: its weights, and its story
    assert state_sha256(kept.state) == state_sha256(base.state) and not kept.state.slots and kept.data == base.data

    (tmp_path / "taught.safetensors").write_bytes(base64.b64decode(made["file"]))
    adapter = load_adapter(tmp_path / "taught.safetensors")
    assert (adapter.name, adapter.run.config, adapter.run.state.step) == ("taught", config, 3)
    assert not adapter.run.state.slots and not adapter.run.progress.history.points
    both = merged_weights(MODEL, base.state, adapter)
    there = np.frombuffer(base64.b64decode(made["merged"]), dtype=np.float32)
    assert there[both.size :].tobytes() == rows.tobytes()
    there = there[: both.size]
    np.testing.assert_array_max_ulp(there, both, 1)  # NumPy's product has another order of its few terms
    assert not np.array_equal(there, base.state.w)

    half = tmp_path / "half.safetensors"
    save_adapter(half, trained_for(12, config, base, node), include_optimizer=True)
    went_on = evaluate(chromium, SESSION, WITH_BASE, GO_ON, FILE=base64.b64encode(half.read_bytes()).decode(), **values)
    ended, *refusals = went_on["told"]
    assert ended == made["made"]
    # A session of its own has more time for samples on the way.
    told = [[event for event in one if sampled(event) != 15] for one in (essence(went_on["events"]), expected)]
    assert told[0] == [event for event in told[1] if event["step"] > 12]
    assert "trained on other base weights" in refusals[0] and "but this model is 2 layers" in refusals[1]
    assert "a run that goes on keeps its layers" in refusals[2] and "has an adapter already" in refusals[3]


class Half(Recorder):
    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    def should_stop(self) -> bool:
        return any(event["event"] == "step" and event["step"] >= self.last for event in self.events)


def sampled(event):
    return event["step"] if event["event"] == "sample" else None


def trained_for(steps: int, config, base: Checkpoint, node) -> Adapter:
    """By the terminal, and stopped there."""
    train, val = Corpus("test", TEXT, "").split(config.train.val_fraction)
    engine = terminal_engine(config, WasmMachine("node", threads=2, runner=node), base=base.state)
    run_now(engine.load_corpus(train, val))
    engine.block = 1
    trainer = Trainer(config, engine, Half(steps), len(train), len(val))
    assert run_now(trainer.run()) == "stopped" and trainer.progress.step == steps
    run = Checkpoint(config, run_now(engine.export_state()), trainer.progress)
    return Adapter("half", state_sha256(base.state), run)
