"""For a class: a lesson as a link, hostile ones among them, and large type for a projector."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from page_access import AXE, grave_faults, tab_to
from page_helpers import PHONE, OpenPage, press, show
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("page")
READS = "what light through yonder"


def lesson_link(page: Page, title: str, *cards: tuple[str, str]) -> str:
    """As state/lesson.ts makes it."""
    stated = json.dumps({"title": title, "cards": [{"text": text, "target": target} for text, target in cards]})
    packed = base64.urlsafe_b64encode(gzip.compress(stated.encode())).decode().rstrip("=")
    return f"{page.url.split('#')[0]}#lesson={packed}"


def go_to(page: Page, link: str) -> None:
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("[data-phase=idle]")


def test_a_lesson_is_made_sent_and_followed(open_page: OpenPage) -> None:
    page = open_page(view="class")
    press(page, "Make the link")
    expect(page.get_by_role("alert")).to_have_text("A lesson's title is empty: write something.")
    page.get_by_label("Title").fill("How a model reads")
    page.get_by_label("What to do").fill("Look at the arcs.")
    page.get_by_label("It leads to").select_option("inside")
    page.get_by_label("reading").fill(READS)
    page.get_by_label("layer").fill("2")
    page.get_by_label("head").fill("3")
    press(page, "Add a step")
    page.get_by_label("What to do").nth(1).fill("Train one.")
    page.get_by_label("It leads to").nth(1).select_option("train")
    page.get_by_label("with the settings").fill("https://a.host/#train?preset=tiny&steps=77")
    press(page, "Make the link")
    link = page.get_by_label("The lesson").input_value()
    assert len(link) < 500

    go_to(page, link)
    expect(page.get_by_role("heading", name="How a model reads")).to_be_visible()
    tab_to(page, "Look inside: layer 2, head 3")  # keys alone
    page.keyboard.press("Enter")
    expect(page.get_by_label("A text that the model reads")).to_have_value(READS)
    expect(page.locator(".told")).to_contain_text("Reading “r”, layer 2, head 3")
    card = page.get_by_role("complementary", name="Lesson: How a model reads")
    expect(card.get_by_role("status")).to_have_text("Look at the arcs.")
    tab_to(page, "Next")
    page.keyboard.press("Enter")
    expect(card.get_by_role("status")).to_have_text("Train one.")
    page.reload()  # does not end it
    press(page, "Go to Train: tiny")
    expect(page.locator("input[name=steps]")).to_have_value("77")
    expect(page.get_by_label("Size or time")).to_have_value("tiny")
    press(page, "Leave the lesson")
    expect(card).to_have_count(0)


def test_a_lesson_of_a_stranger_is_text_and_leads_nowhere_else(open_page: OpenPage) -> None:
    page = open_page(view="home")
    page.evaluate(AXE.read_text())
    bold = "<img src=x onerror=alert(1)><b>bold</b>"
    page.evaluate(
        "link => { location.href = link }", lesson_link(page, bold, (bold * 12, "#play?model=../../x&text=<b>"))
    )
    expect(page.get_by_role("heading", name=bold)).to_be_visible()
    press(page, "Go to Play: ../../x")
    expect(page.get_by_role("alert")).to_contain_text("names a model that this site does not have")
    expect(page.locator("[data-lesson] p")).to_have_text(bold * 12)
    faults = list(grave_faults(page, "a lesson that is followed"))
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    expect(page.get_by_role("button", name="Leave the lesson")).to_be_in_viewport()
    page.evaluate("link => { location.href = link }", lesson_link(page, "A", ("b", "https://example.com")))
    expect(page.get_by_role("alert")).to_have_text("Card 1 does not lead to a place of this page.")
    assert not faults


def test_large_type_stays_until_it_is_switched_off(open_page: OpenPage) -> None:
    page = open_page(view="class")
    size = "() => parseFloat(getComputedStyle(document.documentElement).fontSize)"
    usual = page.evaluate(size)
    page.get_by_role("switch", name="Large type").check()
    assert page.evaluate(size) >= 1.2 * usual
    page.reload()
    page.wait_for_selector("[data-phase=idle]")
    assert page.evaluate(size) >= 1.2 * usual
    show(page, "class")
    page.get_by_role("switch", name="Large type").uncheck()
    page.reload()
    assert page.evaluate(size) == usual
