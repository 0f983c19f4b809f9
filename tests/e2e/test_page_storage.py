"""Nothing is lost: what the browser keeps of a run outlives a reload, a killed browser and a full disk, bit for bit."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from page_helpers import FLAGS, PATIENCE, OpenPage, let_write, offer_of, save, step, stop, wait_for_step, your_model
from page_toy import (
    TEXT,
    TINY,
    assert_same_model,
    engine_worker,
    finish,
    go_on_from_there,
    go_on_with,
    hide,
    uninterrupted,
    untrained,
    wait_until_kept,
)
from playwright.sync_api import Browser, Dialog, Page, Playwright, expect

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.write.sampler import generate
from tinygpt.data import Corpus
from tinygpt.engines.base import State, terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.runner import find_chromium
from tinygpt.engines.wasm import WasmMachine
from tinygpt.serve.server import Site
from tinygpt.store.formats import Checkpoint, load_tinygpt

pytestmark = pytest.mark.xdist_group("page-kept")

EVENTS = """
async () => {
  let folder = await navigator.storage.getDirectory();
  for (const name of ["tinygpt", "runs"]) folder = await folder.getDirectoryHandle(name);
  for await (const run of folder.values()) return (await (await run.getFileHandle("events.jsonl")).getFile()).text();
}
"""
STALL = """
([call, share]) => {
  // In the call of that number, once so much of it is written, the worker stands still.
  const handle = FileSystemSyncAccessHandle.prototype;
  const { write, truncate, flush } = handle;
  let left = call;
  const stall = () => {
    console.log("amid");
    const end = performance.now() + 5000;
    while (performance.now() < end);
  };
  handle.write = function (bytes, options) {
    if (--left) return write.call(this, bytes, options);
    write.call(this, bytes.subarray(0, Math.floor(share * bytes.length)), options);
    stall();
  };
  handle.truncate = function (size) { if (!--left) stall(); return truncate.call(this, size); };
  handle.flush = function () { if (!--left) stall(); return flush.call(this); };
}
"""

LONG = 12_000  # steps, so that the page is reloaded before they are done, however slow the reload is
# The calls of one checkpoint may be too few.
AGAIN = "() => void setInterval(() => document.dispatchEvent(new Event('visibilitychange')), 100)"


def keep_now(page: Page) -> None:
    """By itself it takes three seconds, in which a fast machine is done."""
    wait_for_step(page, 10)
    hide(page)
    wait_until_kept(page)


def interrupted(page: Page, file: Path, folder: Path, engine: str = "wasm") -> Checkpoint:
    go_on_with(page, file, engine)
    keep_now(page)
    page.reload()
    offer = offer_of(page)
    expect(offer).to_contain_text(f"Continue {file.name}, step ")
    go_on_from_there(page)
    return finish(page, folder)


def test_a_reload_in_mid_run_changes_no_bit(open_page: OpenPage, tmp_path: Path) -> None:
    file = untrained(tmp_path / "toy.tinygpt", TINY.replace(steps=LONG, eval_every=LONG // 3, sample_every=LONG // 3))
    page = open_page()
    assert offer_of(page).count() == 0
    made = interrupted(page, file, tmp_path)
    assert_same_model(made, uninterrupted(open_page, file, tmp_path))
    told = [json.loads(line) for line in engine_worker(page).evaluate(EVENTS).splitlines()]
    assert [row[0] for event in told if event["event"] == "steps" for row in event["rows"]] == [*range(1, LONG + 1)]
    assert [event["step"] for event in told if event["event"] == "eval"] == [LONG // 3, 2 * LONG // 3, LONG]

    # The file that the page wrote is Python's as well: the same text, byte for byte.
    engine = native_engine(made.config, state=made.state)
    text = "abc" + run_now(generate(engine, made.config.model.ctx, b"abc", SampleConfig(seed=7))).decode("latin1")
    assert let_write(page, "abc", seed="7") == text


@pytest.mark.slow
def test_a_reload_in_mid_run_changes_no_bit_on_webgpu(open_webgpu_page: OpenPage, tmp_path: Path) -> None:
    file = untrained(tmp_path / "toy.tinygpt", TINY.replace(steps=150))
    made = interrupted(open_webgpu_page(), file, tmp_path, "webgpu")
    assert made.backend == "webgpu"
    assert_same_model(made, uninterrupted(open_webgpu_page, file, tmp_path, "webgpu"))


@contextmanager
def browser_of(playwright: Playwright, profile: Path) -> Iterator[tuple[subprocess.Popen[bytes], Browser]]:
    """A browser with a profile on disk, whose process is ours to kill."""
    chromium = find_chromium()
    assert chromium is not None
    (profile / "DevToolsActivePort").unlink(missing_ok=True)
    flags = [*FLAGS, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--disable-gpu"]
    process = subprocess.Popen([chromium, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = profile / "DevToolsActivePort"
        end = time.monotonic() + PATIENCE / 1000
        while not (port.exists() and port.read_text().count("\n") >= 1):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        yield process, playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port.read_text().splitlines()[0]}")
    finally:
        process.kill()
        process.wait()


def on_node(made: Checkpoint, node) -> State:
    """The state after as many steps of the same run, never interrupted and without a page."""
    engine = terminal_engine(made.config, WasmMachine("node", threads=1, runner=node))
    run_now(engine.load_corpus(*Corpus("toy", TEXT.encode(), "").split(made.config.train.val_fraction)))
    while engine.step < made.state.step:
        run_now(engine.train(min(500, made.state.step - engine.step)))
        run_now(engine.read_metrics())
    state = run_now(engine.export_state())
    run_now(engine.close())
    return state


@pytest.mark.parametrize(("kills", "calls"), [(1, 12), pytest.param(20, 21, marks=pytest.mark.slow)])
def test_a_browser_killed_amid_checkpoints_loses_no_bit(
    kills: int, calls: int, dist: Path, playwright: Playwright, tmp_path: Path, node
) -> None:
    """Each time it is in the middle of some call of some checkpoint: one has twelve calls, with a snapshot 21. Where
    those of one are too few the next is waited for. The run is too long to be done by then on any machine."""
    file = untrained(tmp_path / "toy.tinygpt", TINY.replace(steps=10_000_000))
    draw = random.Random(kills)
    least = 0
    with Site(dist) as site:
        for killed in range(kills + 1):
            with browser_of(playwright, tmp_path / "profile") as (process, browser):
                page = browser.contexts[0].new_page()
                page.set_default_timeout(PATIENCE)
                page.goto(f"{site.url}#train")
                page.wait_for_selector("[data-phase=idle]")
                if killed == 0:
                    go_on_with(page, file)
                    keep_now(page)
                else:
                    expect(offer_of(page)).to_contain_text("Continue toy.tinygpt, step ")
                    go_on_from_there(page)
                    page.wait_for_selector("[data-phase=training]")
                    assert step(page) >= least
                if killed == kills:
                    wait_for_step(page, least + 50)
                    stop(page)
                    made = load_tinygpt(save(page, tmp_path))
                    expected = on_node(made, node)
                    assert expected.step == made.state.step and np.array_equal(expected.w, made.state.w)
                    for name, slot in expected.slots.items():
                        assert np.array_equal(slot, made.state.slots[name])
                    return
                engine_worker(page).evaluate(STALL, [draw.randint(1, calls), draw.random()])
                with page.expect_console_message(lambda said: said.text == "amid"):
                    hide(page)
                    page.evaluate(AGAIN)
                least = int(page.evaluate("document.querySelector('[data-kept]').dataset.kept"))
                process.send_signal(signal.SIGKILL)
                process.wait()


@pytest.mark.slow
def test_a_full_disk_stops_nothing(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    go_on_with(page, untrained(tmp_path / "toy.tinygpt", TINY.replace(steps=100_000)))
    wait_until_kept(page)
    session = page.context.new_cdp_session(page)
    origin = page.evaluate("location.origin")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1000})
    hide(page)
    expect(page.get_by_text("The browser's storage is full: the model as of step ")).to_be_visible()
    at = step(page)
    wait_for_step(page, at + 100)
    expect(your_model(page)).to_contain_text("not saved")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin})
    stop(page)
    expect(page.get_by_text("The browser's storage is full")).to_have_count(0)  # the end could be kept again
    wait_until_kept(page)


def without_storage(page: Page) -> None:
    def answer(route) -> None:
        script = route.fetch()
        route.fulfill(response=script, body="delete StorageManager.prototype.getDirectory;\n" + script.text())

    page.route("**/worker*.js", answer)


@pytest.mark.slow
def test_without_storage_the_page_says_so_and_asks_before_it_is_left(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(prepare=without_storage)
    expect(page.locator(".warning", has_text="nothing outlives this tab")).to_be_visible()
    go_on_with(page, untrained(tmp_path / "toy.tinygpt", TINY.replace(steps=100_000)))
    wait_for_step(page, 100)
    saved = load_tinygpt(save(page, tmp_path))
    wait_for_step(page, saved.state.step + 100)
    at = stop(page)
    # What was saved on the way is another step.
    expect(your_model(page)).to_contain_text(re.compile(rf"step\s+{at:,}, not saved"))
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", answer)
    page.reload()
    page.wait_for_selector("[data-phase=idle]")
    assert asked == ["beforeunload"]
    assert offer_of(page).count() == 0
