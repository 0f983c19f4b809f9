"""A model in hand is taught another text: an adapter learns beside it, is kept and compared, and goes both ways."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from page_helpers import (
    OpenPage,
    check,
    choose_text,
    click,
    let_write,
    offer_of,
    press,
    save,
    show,
    stat,
    step,
    stop,
    wait_for_step,
    your_model,
)
from page_toy import TEXT, TINY, go_on_from_there, one_thread, wait_until_kept
from playwright.sync_api import Locator, Page, expect
from test_page_inside import HEAR, assert_as_the_terminal_sees_it, heard
from test_page_library import more

import tinygpt
from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.presets import adapting
from tinygpt.core.train.host import Host
from tinygpt.core.train.progress import Progress
from tinygpt.core.train.trainer import Trainer
from tinygpt.core.train.validation import validate
from tinygpt.data import Corpus
from tinygpt.engines.base import State, terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.wasm import WasmMachine
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt
from tinygpt.store.formats.adapter_file import Adapter, load_adapter, merged, save_adapter
from tinygpt.store.formats.checkpoint import weights_sha256

pytestmark = pytest.mark.xdist_group("page-kept")
LORA = LoraConfig(rank=3, alpha=16.0, targets="q_proj,v_proj,fc_in,o_proj")
CHANGES = {"lr": 0.05, "eval_every": 200, "sample_every": 500}
GENTLE = CHANGES | {"lr": 0.0003}  # where engines round differently, and fast learners would go different ways
KEPT_BASE = """
async () => {
  let folder = await navigator.storage.getDirectory();
  for (const name of ["tinygpt", "bases"]) folder = await folder.getDirectoryHandle(name);
  const found = [];
  for await (const base of folder.values()) {
    const bytes = new Uint8Array(await (await base.getFile()).arrayBuffer());
    found.push([base.name, btoa(String.fromCharCode(...bytes))]);
  }
  return found;
}
"""


def load(page: Page, file: Path) -> None:
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)


def teach(page: Page, base: Path, config: RunConfig, engine: str = "wasm") -> None:
    load(page, base)
    press(page, "Teach it another text …")
    choose_text(page, "own", TEXT)
    page.get_by_label("rank", exact=True).fill("3")
    page.get_by_label("fc_out", exact=True).uncheck()
    check(page.get_by_label("o_proj", exact=True))
    check(page.locator(f"input[name=engine][value={engine}]"))
    one_thread(page)
    for name in ("steps", *CHANGES):
        page.locator(f"input[name={name}]").fill(str(getattr(config.train, name)))
    expect(page.locator("[data-fact=adapter]")).to_contain_text(f"{trained_count(config):,} numbers learn")
    press(page, "Teach")


LONG = 8_000  # steps, so that a run is stopped before they are done, however late that is heard


def config_of(base: Path, steps: int, changes: dict[str, float] = CHANGES) -> RunConfig:
    return adapting(load_tinygpt(base).config, LORA).replace(**changes, steps=steps)


def finished(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('[role=status]').innerText.startsWith('Finished')")


def writes(page: Page, beside: str) -> tuple[str, str]:
    """What the adapter in hand and the other model write, the likeliest byte each time."""
    show(page, "play")
    page.get_by_label("Compare with", exact=True).select_option(beside)
    panes = page.locator(".panes article")
    expect(panes).to_have_count(2)
    expect(panes.nth(1)).not_to_have_attribute("aria-label", "Loading …")
    page.get_by_label("Begin with").fill("abca")
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_label("Length", exact=True).fill("20")
    press(page, "Write")
    return written(panes.first), written(panes.nth(1))


def written(pane: Locator) -> str:
    pane.locator("[data-pace=done]").filter(has_text="20 letters").wait_for()
    return pane.locator(".written").inner_text()


def python_writes(base: Path, adapter: Path | None = None) -> str:
    return "abca" + tinygpt.load(base, adapter=adapter, engine="native").generate("abca", tokens=20, temperature=0)


def trained(file: Path, seed: int) -> Path:
    """A model that knows the letters, in another order."""
    config = TINY.replace(seed=seed, steps=300)
    train, val = Corpus("before", b"aaabbbccc " * 100, "").split(config.train.val_fraction)
    engine = native_engine(config)
    run_now(engine.load_corpus(train, val))
    trainer = Trainer(config, engine, Silent(), len(train), len(val))
    assert run_now(trainer.run()) == "finished"
    save_tinygpt(file, Checkpoint(config, run_now(engine.export_state()), trainer.progress))
    return file


class Silent(Host):
    def now(self) -> float:
        return 0.0


def uninterrupted(config: RunConfig, base: Checkpoint, node) -> tuple[State, Progress]:
    train, val = Corpus("test", TEXT.encode(), "").split(config.train.val_fraction)
    engine = terminal_engine(config, WasmMachine("node", threads=1, runner=node), base=base.state.w)
    run_now(engine.load_corpus(train, val))
    trainer = Trainer(config, engine, Silent(), len(train), len(val))
    assert run_now(trainer.run()) == "finished"
    return run_now(engine.export_state()), trainer.progress


def loss_of_base(config: RunConfig, base: Checkpoint) -> float:
    """Of the model alone, on the windows that the adapter's validations have."""
    train, val = Corpus("test", TEXT.encode(), "").split(config.train.val_fraction)
    engine = native_engine(RunConfig(config.model, config.train), state=State(0, base.state.w))
    run_now(engine.load_corpus(train, val))
    loss = run_now(validate(engine))
    assert loss is not None
    return loss


def test_an_adapter_outlives_a_reload_is_kept_with_its_base_and_works_in_python(
    open_page: OpenPage, tmp_path: Path, node
) -> None:
    file = trained(tmp_path / "toy.tinygpt", 5)
    base = load_tinygpt(file)
    config = config_of(file, LONG)
    page = open_page()
    teach(page, file, config)
    wait_for_step(page, 1)
    stop(page)
    wait_until_kept(page)
    page.reload()
    expect(offer_of(page)).to_contain_text("Continue toy taught your own text, step ")
    go_on_from_there(page)
    finished(page)
    assert step(page) == LONG
    note = page.locator("[data-stat=validation] .note")
    expect(note).to_have_text(f"base {loss_of_base(config, base):.3f}")
    assert float(stat(page, "validation")) < 1 < float(note.inner_text().removeprefix("base "))

    wait_until_kept(page)
    show(page, "models")
    card = page.get_by_role("article", name="toy taught your own text")
    expect(card).to_contain_text("an adapter of toy.tinygpt, rank 3")
    expect(more(card).get_by_role("button", name="Save a proof")).to_be_disabled()
    with page.expect_download() as download:
        click(card.get_by_role("button", name="Export"))
    download.value.save_as(tmp_path / "whole.safetensors")
    kept = load_adapter(tmp_path / "whole.safetensors")
    state, progress = uninterrupted(config, base, node)
    assert (
        kept.run.config == config and kept.run.state.step == LONG and kept.base_sha256 == weights_sha256(base.state.w)
    )
    assert np.array_equal(kept.run.state.w, state.w)
    assert all(np.array_equal(kept.run.state.slots[name], state.slots[name]) for name in ("m", "v"))
    assert kept.run.progress.history.points == progress.history.points
    ((name, stored),) = page.evaluate(KEPT_BASE)
    (tmp_path / "base.tinygpt").write_bytes(base64.b64decode(stored))
    assert name == kept.base_sha256 and np.array_equal(load_tinygpt(tmp_path / "base.tinygpt").state.w, base.state.w)

    show(page, "train")
    small = save(page, tmp_path, "Save the adapter alone")
    assert small.suffix == ".safetensors" and 2 * small.stat().st_size < (tmp_path / "whole.safetensors").stat().st_size
    both = python_writes(file, small)
    assert writes(page, "=base") == (both, python_writes(file)) and both != python_writes(file)
    assert writes(page, "=merged") == (both, both)
    show(page, "train")
    with page.expect_download() as download:
        press(page, "Save the whole model")
    download.value.save_as(tmp_path / "merged.tinygpt")
    assert python_writes(tmp_path / "merged.tinygpt") == both
    assert load_tinygpt(tmp_path / "merged.tinygpt").lora["baseSha256"] == kept.base_sha256

    show(page, "models")
    click(card.get_by_role("button", name="Watch it learn"))
    journey = page.get_by_role("region", name="Watch toy taught your own text learn")
    journey.get_by_label("What each should continue").fill("abca")
    journey.get_by_label("seed").fill("7")
    press(page, "Show what it wrote")
    sampled = tinygpt.load(file, adapter=small, engine="native").generate("abca", seed=7)
    expect(journey.locator(".written")).to_have_text("abca" + sampled)
    press(page, "Continue from here")
    expect(your_model(page)).to_contain_text("an adapter of toy.tinygpt")
    show(page, "models")
    page.on("dialog", lambda dialog: dialog.accept())
    more(card, "Delete …")
    expect(card).to_have_count(0)
    assert page.evaluate(KEPT_BASE) == []  # nothing stands on it any more


@pytest.mark.slow
def test_an_adapter_of_python_stands_on_its_own_model_only(open_page: OpenPage, tmp_path: Path) -> None:
    file, other = trained(tmp_path / "toy.tinygpt", 5), trained(tmp_path / "other.tinygpt", 7)
    base = load_tinygpt(file)
    config = config_of(file, 50)
    w = np.random.default_rng(3).normal(0, 0.3, trained_count(config)).astype(np.float32)
    made = tmp_path / "made.safetensors"
    save_adapter(made, Adapter("made", weights_sha256(base.state.w), Checkpoint(config, State(30, w))))
    page = open_page(prepare=lambda page: page.add_init_script(HEAR))
    for before in (None, other):
        if before is not None:
            load(page, before)
            expect(page.get_by_role("alert").first).to_contain_text("Loaded other.tinygpt")
        load(page, made)
        expect(page.get_by_role("alert").first).to_contain_text(
            "The file made.safetensors cannot be loaded: the adapter 'made' stands on a model that is not here"
        )
    load(page, file)
    expect(page.get_by_role("alert").first).to_contain_text("Loaded toy.tinygpt")
    press(page, "Teach it another text …")
    choose_text(page, "own", "short")
    press(page, "Teach")
    expect(page.get_by_role("alert").first).to_contain_text("use a longer text")
    for name in ("q_proj", "v_proj", "fc_in", "fc_out"):
        page.get_by_label(name, exact=True).uncheck()
    expect(page.get_by_text("targets is empty; choose from q_proj")).to_be_visible()
    for name in ("q_proj", "v_proj"):
        check(page.get_by_label(name, exact=True))
    assert let_write(page, "abc").startswith("abc")  # it is in the worker from now on
    show(page, "train")
    page.get_by_label("Text to learn from").fill(TEXT)
    page.locator("input[name=steps]").fill("5")
    one_thread(page)
    press(page, "Teach")
    finished(page)
    assert load_adapter(save(page, tmp_path, "Save the adapter alone")).base_sha256 == weights_sha256(base.state.w)

    load(page, made)
    expect(your_model(page)).to_contain_text("made.safetensors, an adapter of toy.tinygpt")
    show(page, "inside")
    seen = heard(page, "step === 30")
    assert_as_the_terminal_sees_it(seen, merged(base, load_adapter(made), base))
    assert writes(page, "=base") == (python_writes(file, made), python_writes(file))

    show(page, "train")
    page.get_by_label("Text to learn from").fill(TEXT)
    one_thread(page)
    press(page, "Continue")
    finished(page)
    assert load_adapter(save(page, tmp_path, "Save the adapter alone")).run.state.step == 50


@pytest.mark.slow
def test_an_adapter_learns_on_webgpu_as_on_webassembly(open_webgpu_page: OpenPage, tmp_path: Path, node) -> None:
    file = trained(tmp_path / "toy.tinygpt", 5)
    page = open_webgpu_page()
    config = config_of(file, 50, GENTLE)
    teach(page, file, config, "webgpu")
    page.wait_for_selector("[data-phase=training]", timeout=600_000)
    finished(page)
    base = load_tinygpt(file)
    shown = page.locator("[data-stat=validation] .note").inner_text()
    assert float(shown.removeprefix("base ")) == pytest.approx(loss_of_base(config, base), abs=1e-3)
    made = save(page, tmp_path, "Save the adapter alone")
    found, (_, progress) = load_adapter(made).run.progress, uninterrupted(config, base, node)
    assert progress.best_val is not None and found.best_val == pytest.approx(progress.best_val, rel=1e-3)
    assert writes(page, "=base") == (python_writes(file, made), python_writes(file))
