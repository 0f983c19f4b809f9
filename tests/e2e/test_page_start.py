"""The first minute: a trained model writes after one click, and a run ends in the time that there is."""

from __future__ import annotations

import pytest
from page_helpers import OpenPage, click, press, show, stat, step
from playwright.sync_api import expect

import tinygpt
from tinygpt.store.bundled import FOLDER

pytestmark = pytest.mark.xdist_group("page")


def test_one_click_and_a_trained_model_writes(open_page: OpenPage) -> None:
    page = open_page(view="")
    click(page.get_by_role("region", name="Play with a trained model").get_by_role("button").first)
    expect(page.locator("[data-pace]")).to_contain_text("320 bytes")
    name = page.locator(".panes h3").inner_text()
    assert page.locator(".panes pre").text_content() == "\n" + tinygpt.load(FOLDER / name).generate("\n")

    show(page, "start")
    page.get_by_role("region", name="Teach a trained model your text").get_by_label("Model").select_option("addition")
    press(page, "Choose a text for it")
    expect(page.get_by_role("region", name="The model in hand")).to_contain_text("addition.tinygpt")
    expect(page.get_by_label("Teach it another text")).to_be_checked()
    expect(page.get_by_label("Text to learn from")).to_be_visible()
    expect(page.get_by_role("button", name="Teach", exact=True)).to_be_visible()


@pytest.mark.slow
def test_a_run_of_a_minute_ends_within_it(open_page: OpenPage) -> None:
    page = open_page(view="start")
    page.get_by_label("I have").select_option("1 minute")
    press(page, "Train for 1 minute")
    page.wait_for_selector("[data-phase=training]", timeout=60_000)
    expect(page.get_by_role("status").first).to_contain_text("Finished", timeout=90_000)
    assert step(page) > 0 and 1 < float(stat(page, "validation")) < 4
