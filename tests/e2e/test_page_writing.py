"""The view that writes: as bytes are made, as long as it is wanted, from any place and beside another model."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_helpers import OpenPage, check, click, press, show, wait_for_step
from playwright.sync_api import Locator, Page, expect

import tinygpt
from tinygpt.store.bundled import FOLDER

pytestmark = pytest.mark.xdist_group("page")
NAME = "shakespeare-small"


def text_of(pane: Locator) -> str:
    return pane.locator("pre").inner_text()


def written(pane: Locator) -> str:
    expect(pane.locator("[data-pace]")).to_contain_text("the first after")
    pane.page.wait_for_selector("[data-phase=idle]")
    return text_of(pane)


def open_writer(open_page: OpenPage) -> tuple[Page, Locator]:
    page = open_page()
    show(page, "write")
    expect(page.get_by_label("Begin with")).to_be_visible()
    page.get_by_role("combobox", name="Write with a model of ours").select_option(NAME)
    pane = page.get_by_role("article", name=f"{NAME}.tinygpt")
    expect(pane).to_be_visible()
    return page, pane


def test_a_text_is_the_terminals_and_goes_on_from_any_place_with_any_byte(open_page: OpenPage) -> None:
    page, pane = open_writer(open_page)
    page.get_by_label("Begin with").fill("HAMLET.\n")
    page.get_by_label("temperature", exact=True).fill("0")
    page.get_by_label("length", exact=True).fill("40")
    press(page, "Write")
    model = tinygpt.load(FOLDER / f"{NAME}.tinygpt", engine="native")
    text = "HAMLET.\n" + model.generate("HAMLET.\n", tokens=40, temperature=0)
    assert written(pane) == text

    place = len("HAMLET.\n") + 3
    pane.locator("pre").focus()
    for _ in range(place - len("HAMLET.\n") + 1):
        page.keyboard.press("ArrowRight")
    expect(pane.locator("mark")).to_have_text(text[place])
    bars = pane.get_by_role("list", name="What could come next").get_by_role("button")
    expect(bars).to_have_count(1)  # at temperature 0 there is one byte that can be drawn
    page.get_by_label("temperature", exact=True).fill("1")
    page.keyboard.press("Escape")
    pane.locator("pre").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    expect(bars).to_have_count(12)
    other = bars.nth(1).locator(".byte").inner_text()
    told = bars.locator(".share").all_inner_texts()
    shares = [0.0 if share.startswith("<") else float(share.removesuffix(" %")) for share in told]
    assert shares == sorted(shares, reverse=True) and 0 < sum(shares) < 100.05
    page.get_by_label("temperature", exact=True).fill("0")
    click(bars.nth(1))
    kept = text[:place] + {"space": " ", "newline": "\n"}.get(other, other)
    assert written(pane) == kept + model.generate(kept, tokens=40, temperature=0)


@pytest.mark.slow
def test_it_ends_where_it_is_told_to_and_when_it_is(open_page: OpenPage) -> None:
    page, pane = open_writer(open_page)
    page.get_by_label("stop at").fill(" the")
    press(page, "Write")
    assert written(pane).endswith(" the")
    page.get_by_label("stop at").fill("")
    page.get_by_label("length", exact=True).fill("1000000")
    press(page, "Write")
    page.wait_for_function("() => /^(\\d|,){3,} bytes/.test(document.querySelector('[data-pace]').innerText)")
    press(page, "Stop writing")
    long = written(pane)
    assert 100 < len(long) < 1_000_000
    press(page, "Write on")
    page.wait_for_function("least => document.querySelector('.panes pre').innerText.length > least", arg=len(long) + 50)
    press(page, "Stop writing")
    assert written(pane).startswith(long)


@pytest.mark.slow
def test_two_models_write_on_from_one_prompt_and_seed(open_page: OpenPage, tmp_path: Path) -> None:
    page, pane = open_writer(open_page)
    page.get_by_label("beside").select_option("moby-dick")
    second = page.get_by_role("article", name="moby-dick.tinygpt")
    expect(second).to_be_visible()
    page.get_by_label("Begin with").fill("The sea")
    page.get_by_label("length", exact=True).fill("30")
    press(page, "Write")
    expect(second.locator("[data-pace]")).to_contain_text("30 bytes")
    assert written(pane) == "The sea" + tinygpt.load(FOLDER / f"{NAME}.tinygpt").generate("The sea", tokens=30)
    assert text_of(second) == "The sea" + tinygpt.load(FOLDER / "moby-dick.tinygpt").generate("The sea", tokens=30)


@pytest.mark.slow
def test_it_writes_while_it_trains(open_page: OpenPage) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 20)
    show(page, "write")
    page.get_by_label("length", exact=True).fill("60")
    press(page, "Write")
    expect(page.locator("[data-pace]")).to_contain_text("60 bytes")
    show(page, "train")
    wait_for_step(page, 200)
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
