"""The library of runs: compare, rename, travel back, fork, export, delete; and two tabs that do not hurt each other."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from page_helpers import OpenPage, check, click, offer_of, press, show, step, stop, wait_for_step, your_model
from page_toy import TINY, assert_same_model, finish, go_on_from_there, go_on_with, untrained, wait_until_kept
from playwright.sync_api import Locator, Page, expect

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.write.sampler import generate
from tinygpt.engines.native import native_engine
from tinygpt.store.formats import load_tinygpt

pytestmark = pytest.mark.xdist_group("page-kept")
HOSTILE = "<img src=x onerror=document.title='taken'>"


def shelved(page: Page, title: str) -> Locator:
    return page.get_by_role("article", name=title, exact=True)


def more(card: Locator, button: str | None = None) -> Locator:
    """The card with all its buttons, one of which may be pressed."""
    card.locator("details").evaluate("details => { details.open = true; }")
    if button is not None:
        click(card.get_by_role("button", name=button))
    return card


def export(page: Page, button: Locator, folder: Path) -> Path:
    with page.expect_download() as download:
        click(button)
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def test_runs_are_compared_renamed_travelled_through_forked_exported_and_deleted(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page()
    for name, rate in (("one", 0.02), ("two", 0.01)):
        go_on_with(page, untrained(tmp_path / name, TINY.replace(lr=rate)))
        whole = finish(page, tmp_path)
        wait_until_kept(page)
    show(page, "models")
    expect(page.get_by_text("2 runs, ")).to_be_visible()

    one = shelved(page, "one")
    more(one, "Rename …")
    one.get_by_label("Title").fill(HOSTILE)
    click(one.get_by_role("button", name="Rename", exact=True))
    one = shelved(page, HOSTILE)
    expect(one.get_by_role("heading")).to_have_text(HOSTILE)

    for box in page.get_by_role("checkbox", name="Compare").all():
        check(box)
    comparison = page.get_by_role("region", name="Comparison")
    expect(comparison.get_by_role("row").nth(1)).to_have_text("learning rate0.010.02")
    expect(comparison.get_by_role("row")).to_have_count(5)  # head, the one difference, two losses, the text

    files = zipfile.ZipFile(export(page, page.get_by_role("button", name="Export all"), tmp_path))
    assert files.testzip() is None and sum(name.endswith(".tinygpt") for name in files.namelist()) == 2
    events = [json.loads(line) for line in files.read(next(n for n in files.namelist() if "jsonl" in n)).splitlines()]
    steps = [row[0] for event in events if event["event"] == "steps" for row in event["rows"]]
    assert steps == list(range(1, TINY.train.steps + 1))
    last = load_tinygpt(export(page, more(shelved(page, "two")).get_by_role("button", name="Export"), tmp_path))
    assert_same_model(last, whole)

    click(shelved(page, "two").get_by_role("button", name="Watch it learn"))
    journey = page.get_by_role("region", name="Watch two learn")
    journey.get_by_label("What each should continue").fill("abc")
    journey.get_by_label("seed").fill("7")
    press(page, "Show what it wrote")
    made = run_now(generate(native_engine(last.config, state=last.state), 9, b"abc", SampleConfig(seed=7)))
    expect(journey.locator(".written")).to_have_text("abc" + made.decode("latin1"))
    journey.get_by_role("slider").fill("0")
    expect(journey.locator(".written")).not_to_have_text("abc" + made.decode("latin1"))
    press(page, "Continue from here")
    expect(page.get_by_role("alert")).to_contain_text("two is open: step ")
    assert 0 < step(page) < TINY.train.steps
    press(page, "Continue")  # with the text that it learnt from before
    assert_same_model(finish(page, tmp_path), whole)

    show(page, "models")
    expect(page.get_by_text("3 runs, ")).to_be_visible()
    expect(page.get_by_text("continued from two at step ")).to_be_visible()
    assert page.get_by_text("best of this text").count() == 1
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    more(one, "Delete …")
    expect(page.get_by_text("2 runs, ")).to_be_visible()
    assert asked == [f"Delete {HOSTILE} from this browser? This cannot be undone."]
    for box in page.get_by_role("checkbox", name="Compare").all():
        check(box)
    click(page.locator(".picked").get_by_role("button", name="Delete …"))
    expect(page.get_by_text("Nothing is kept yet")).to_be_visible()
    assert asked[1:] == ["Delete 2 runs from this browser? This cannot be undone."]
    assert page.title() == "TinyGPT"


def test_a_run_is_gone_on_with_in_one_tab_at_a_time(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    go_on_with(page, untrained(tmp_path / "toy", TINY.replace(steps=1_000_000)))
    wait_until_kept(page)
    at = stop(page)
    page.reload()  # the model is this tab's again, without a click
    expect(your_model(page)).to_contain_text(f"numbers, step {at:,}, kept in this browser")
    show(page, "inside")
    expect(page.locator("[data-inside=step]")).to_have_text(f"toy, step {at:,}")
    show(page, "train")
    expect(offer_of(page)).to_contain_text(f"Continue toy, step {at:,}")
    address = page.url
    page.goto("about:blank")
    page, other = page.context.new_page(), page.context.new_page()
    for tab in (page, other):
        tab.goto(address)
        expect(offer_of(tab)).to_contain_text(f"Continue toy, step {at:,}")
    go_on_from_there(page)
    wait_for_step(page, at + 100)
    go_on_from_there(other)
    expect(other.get_by_role("alert")).to_contain_text(
        "This run is open in another tab; go on there, or close that tab"
    )
    show(other, "models")
    expect(shelved(other, "toy")).to_contain_text("It is open in another tab")
    for name in ("Open", "Delete …", "Rename …"):
        expect(more(shelved(other, "toy")).get_by_role("button", name=name)).to_be_disabled()
    reached = stop(page)
    wait_until_kept(page)
    page.close()
    expect(shelved(other, "toy")).not_to_contain_text("It is open in another tab")
    click(shelved(other, "toy").get_by_role("button", name="Open"))
    show(other, "models")
    expect(other.get_by_role("alert").first).to_contain_text(f"toy is open: step {reached:,}.")
    other.close()
