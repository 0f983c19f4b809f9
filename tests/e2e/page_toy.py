"""A toy model that trains in seconds, on any engine, and what tests do with it on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from page_helpers import OpenPage, check, choose_text, click, offer_of, press, save, unfold, your_model
from playwright.sync_api import Page, expect

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.train.progress import Progress
from tinygpt.engines.native import native_engine
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt

# Odd sizes: SwiftShader compiles the kernels for even ones for a minute.
TINY = RunConfig(
    ModelConfig(layers=1, d_model=10, heads=2, ctx=9),
    TrainConfig(batch=2, steps=1500, lr=0.02, eval_every=500, sample_every=500),
)
TEXT = "abcabcabc " * 100
MADE: dict[tuple[str, str], Checkpoint] = {}


def untrained(file: Path, config: RunConfig = TINY) -> Path:
    progress = Progress()
    progress.loss = 5.5
    save_tinygpt(file, Checkpoint(config, run_now(native_engine(config).export_state()), progress))
    return file


def go_on_with(page: Page, file: Path, engine: str = "wasm", text: str = TEXT) -> None:
    choose_text(page, "own", text)
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)
    check(page.locator(f"input[name=engine][value={engine}]"))
    one_thread(page)
    press(page, "Continue")


def go_on_from_there(page: Page) -> None:
    one_thread(page)
    click(offer_of(page).get_by_role("button").first)


def one_thread(page: Page) -> None:
    """A toy's threads would wait for each other for most of the time, on a machine that has more to do."""
    unfold(page)
    threads = page.locator("input[name=threads]")
    if threads.is_enabled():
        threads.fill("1")


def engine_worker(page: Page):
    return next(worker for worker in page.workers if "worker" in worker.url)


def hide(page: Page) -> None:
    """As if another tab came to the front: the run is kept soon."""
    page.evaluate("""() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }""")


def wait_until_kept(page: Page) -> None:
    expect(your_model(page)).to_contain_text("kept in this browser")


def finish(page: Page, folder: Path) -> Checkpoint:
    page.wait_for_function(
        "() => document.querySelector('[role=status]').innerText.startsWith('Finished')", timeout=600_000
    )
    return load_tinygpt(save(page, folder))


def uninterrupted(open_page: OpenPage, file: Path, folder: Path, engine: str = "wasm") -> Checkpoint:
    """What the page makes of the file when nothing happens."""
    known = (repr(load_tinygpt(file).config), engine)
    if known not in MADE:
        page = open_page()
        go_on_with(page, file, engine)
        MADE[known] = finish(page, folder)
    return MADE[known]


def assert_same_model(one: Checkpoint, other: Checkpoint) -> None:
    assert one.config == other.config and one.state.step == other.state.step
    assert np.array_equal(one.state.w, other.state.w)
    assert one.state.slots.keys() == other.state.slots.keys()
    for name in one.state.slots:
        assert np.array_equal(one.state.slots[name], other.state.slots[name])
    assert one.progress.history.points == other.progress.history.points
    assert (one.progress.best_val, one.progress.best_step) == (other.progress.best_val, other.progress.best_step)
