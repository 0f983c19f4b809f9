"""The view that writes: as bytes are made, as long as it is wanted, from any place and beside another model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, check, click, press, save, show, wait_for_step
from playwright.sync_api import Locator, Page, expect

import tinygpt
from tinygpt.store.bundled import FOLDER
from tinygpt.store.formats import load_tinygpt

pytestmark = pytest.mark.xdist_group("page")
NAME = "shakespeare-small"


def text_of(pane: Locator) -> str:
    return pane.locator(".written").inner_text()


def written(pane: Locator) -> str:
    pane.locator("[data-pace=done]").filter(has_text="letters").wait_for()
    pane.page.wait_for_selector("[data-phase=idle]")
    return text_of(pane)


def open_writer(open_page: OpenPage) -> tuple[Page, Locator]:
    """One click on the first screen, and a bundled model writes what its card quotes."""
    page = open_page(view="home")
    click(page.get_by_role("button", name="Come, good my mind"))
    pane = page.get_by_role("article", name=f"{NAME}.tinygpt")
    expect(pane).to_be_visible()
    return page, pane


def test_a_text_is_the_terminals_and_goes_on_from_any_place_with_any_byte(open_page: OpenPage, tmp_path: Path) -> None:
    page, pane = open_writer(open_page)
    model = tinygpt.load(FOLDER / f"{NAME}.tinygpt", engine="native")
    assert written(pane) == "HAMLET.\n" + model.generate("HAMLET.\n", seed=5)
    assert "Come, good my mind; deny it is form'd.--\nBut there is he! enough I have rain'd my lord" in text_of(pane)
    expect(pane.locator("footer b")).to_have_text("Shakespeare")
    before = page.locator("input[name=seed]").input_value()
    press(page, "Write")
    expect(page.locator("input[name=seed]")).not_to_have_value(before)  # another text each time
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_label("Length", exact=True).fill("40")
    press(page, "Write")
    text = "HAMLET.\n" + model.generate("HAMLET.\n", tokens=40, temperature=0)
    assert written(pane) == text

    place = len("HAMLET.\n") + 3
    pane.locator(".written").focus()
    for _ in range(place - len("HAMLET.\n") + 1):
        page.keyboard.press("ArrowRight")
    expect(pane.locator("mark")).to_have_text(text[place])
    bars = pane.get_by_role("list", name="What could come next").get_by_role("button")
    expect(bars).to_have_count(1)  # at temperature 0 there is one byte that can be drawn
    page.get_by_label("Temperature", exact=True).fill("1")
    page.keyboard.press("Escape")
    pane.locator(".written").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    expect(bars).to_have_count(8)
    other = bars.nth(1).locator(".byte").inner_text()
    told = bars.locator(".share").all_inner_texts()
    shares = [0.0 if share.startswith("<") else float(share.removesuffix(" %")) for share in told]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) < 100.05
    page.get_by_label("Temperature", exact=True).fill("0")
    click(bars.nth(1))
    kept = text[:place] + {"space": " ", "newline": "\n"}.get(other, other)
    assert written(pane) == kept + model.generate(kept, tokens=40, temperature=0)

    # It wrote with int8 weights as they are; what is saved, or set aside for another, has all of them as floats.
    show(page, "train")
    saved, own = load_tinygpt(save(page, tmp_path)), load_tinygpt(FOLDER / f"{NAME}.tinygpt")
    assert np.array_equal(saved.state.w, own.state.w)
    assert saved.state.tables is not None and np.array_equal(saved.state.tables.rows, own.state.tables.rows)


@pytest.mark.slow
def test_it_ends_where_it_is_told_to_and_when_it_is(open_page: OpenPage) -> None:
    page, pane = open_writer(open_page)
    written(pane)
    page.locator("[data-view=play] details.advanced").evaluate("details => { details.open = true; }")
    page.get_by_label("stop at").fill(" the")
    press(page, "Write")
    assert written(pane).endswith(" the")
    page.get_by_label("stop at").fill("")
    page.get_by_label("Length", exact=True).fill("2000")
    press(page, "Write")
    page.wait_for_function("() => document.querySelector('.panes .written').innerText.length > 100")
    press(page, "Stop")
    long = written(pane)
    assert 100 < len(long) < 2000
    press(page, "Continue")
    page.wait_for_function(
        "least => document.querySelector('.panes .written').innerText.length > least", arg=len(long) + 50
    )
    press(page, "Stop")
    assert written(pane).startswith(long)


def test_letters_come_as_fast_as_one_reads_and_are_coloured_by_surprise(open_page: OpenPage) -> None:
    page = open_page(view="home", motion="no-preference")
    click(page.get_by_role("button", name="Come, good my mind"))
    pane = page.get_by_role("article", name=f"{NAME}.tinygpt")
    expect(pane.locator("footer")).to_contain_text("320 letters")  # all are there,
    assert len(text_of(pane)) < 320  # and not all are shown yet
    press(page, "Stop")
    shown = written(pane)
    assert 0 < len(shown) < 320
    check(page.get_by_label("Colour by surprise"))
    strengths = "spans => spans.map((span) => parseFloat(span.style.getPropertyValue('--strength')))"
    page.wait_for_function("() => document.querySelectorAll('.panes .written span').length > 5")
    found = pane.locator(".written span").evaluate_all(strengths)
    assert max(found) > 20 and min(found) == 0


@pytest.mark.slow
def test_two_models_write_on_from_one_prompt_and_seed(open_page: OpenPage, tmp_path: Path) -> None:
    page, pane = open_writer(open_page)
    written(pane)
    page.get_by_label("Compare with", exact=True).select_option("moby-dick")
    second = page.get_by_role("article", name="moby-dick.tinygpt")
    expect(second).to_be_visible()
    page.get_by_label("Begin with").fill("The sea")
    page.get_by_label("Length", exact=True).fill("30")
    page.locator("input[name=seed]").fill("11")
    press(page, "Write")
    second.locator("[data-pace=done]").filter(has_text="30 letters").wait_for()
    for name, by in ((NAME, pane), ("moby-dick", second)):
        text = tinygpt.load(FOLDER / f"{name}.tinygpt").generate("The sea", tokens=30, seed=11)
        assert written(by) == "The sea" + text
    page.get_by_label("Another model").select_option("addition")
    expect(page.locator(".panes article")).to_have_count(1)  # what was compared goes with it
    sums = page.get_by_role("article", name="addition.tinygpt")
    expect(sums.locator(".written")).to_have_text("12+34=46")


@pytest.mark.slow
def test_it_writes_while_it_trains(open_page: OpenPage) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 20)
    show(page, "play")
    page.get_by_label("Length", exact=True).fill("60")
    press(page, "Write")
    expect(page.locator("[data-pace=done]")).to_contain_text("60 letters")
    show(page, "train")
    wait_for_step(page, 200)
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
