"""Whatever goes wrong, the page keeps the current model, and says truly what it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_helpers import (
    OpenPage,
    check,
    choose_text,
    let_write,
    press,
    save,
    show,
    stat,
    step,
    stop,
    wait_for_step,
    your_model,
)
from playwright.sync_api import Page, expect

from tinygpt.store.formats import load_tinygpt

pytestmark = pytest.mark.xdist_group("page")


def train_tiny(page: Page, least: int = 5) -> int:
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, least)
    return stop(page)


def assert_in_hand(page: Page, at: int) -> None:
    show(page, "train")
    expect(your_model(page)).to_contain_text(re.compile(rf"step\s+{at}, kept in this browser"))
    assert step(page) == at
    assert let_write(page, "To be").startswith("To be")
    show(page, "train")


def own_text(page: Page, text: str) -> None:
    choose_text(page, "own", text)


def test_a_start_that_fails_leaves_the_model_in_hand(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    page.on("dialog", lambda dialog: dialog.accept())
    at = train_tiny(page)

    own_text(page, "")
    check(page.get_by_label("small", exact=True))
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text("Paste some text first, or choose a file.")
    assert_in_hand(page, at)
    own_text(page, "short")
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text("use a longer text")
    assert_in_hand(page, at)

    empty = tmp_path / "empty.txt"
    empty.touch()
    page.get_by_label("Choose a file").set_input_files(empty)
    expect(page.get_by_text("There is no text in empty.txt")).to_be_visible()
    assert_in_hand(page, at)

    own_text(page, "Some text that is long enough. " * 10)
    engine = next(worker for worker in page.workers if "worker" in worker.url)
    engine.evaluate("""() => {
      const Memory = WebAssembly.Memory;
      let refusals = 1;
      WebAssembly.Memory = function (wanted) {
        if (wanted.initial > 1 && refusals-- > 0) throw new RangeError("no room");
        return new Memory(wanted);
      };
    }""")
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text("of memory, which cannot be had here")
    assert_in_hand(page, at)
    check(page.get_by_label("your model", exact=True))
    press(page, "Continue")
    wait_for_step(page, at + 5)
    stop(page)


@pytest.mark.slow
def test_after_a_divergence_page_and_file_are_at_the_step_that_was_kept(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    page.get_by_label("learning rate", exact=True).fill("10")
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Training stopped at step ")
    expect(alert).to_contain_text("The model as of step 0 is kept")
    assert step(page) == 0 and stat(page, "loss") == "–"
    assert load_tinygpt(save(page, tmp_path)).state.step == 0

    page.get_by_label("learning rate", exact=True).fill("0.001")
    press(page, "Continue")
    wait_for_step(page, 20)
    at = stop(page)
    page.get_by_label("learning rate", exact=True).fill("10")
    press(page, "Continue")
    expect(alert).to_contain_text(f"The model as of step {at} is kept")
    assert step(page) == at
    saved = load_tinygpt(save(page, tmp_path))
    assert saved.state.step == at and saved.config.train.lr == 10
    page.get_by_label("learning rate", exact=True).fill("0.001")
    press(page, "Continue")
    wait_for_step(page, at + 20)
    assert 0 < float(stat(page, "loss")) < 5.6


@pytest.mark.slow
def test_it_writes_without_a_text_and_without_the_server(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    train_tiny(page)
    saved = save(page, tmp_path)
    own_text(page, "")
    page.context.set_offline(True)
    for _ in range(2):  # the model in the worker, then one from a file in a worker that has opened nothing
        assert let_write(page, "To be").startswith("To be")
        expect(page.get_by_role("alert").first).to_be_empty()
        show(page, "train")
        page.context.set_offline(False)
        page.reload()
        page.wait_for_selector("[data-phase=idle]")
        page.wait_for_load_state("networkidle")
        page.context.set_offline(True)
        page.locator("input[accept^='.tinygpt,']").set_input_files(saved)
    page.context.set_offline(False)
