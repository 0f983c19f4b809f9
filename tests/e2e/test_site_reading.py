"""Somebody learns: a chapter, its question, how far they are, search, and all of it again without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from page_access import AXE, grave_faults
from page_helpers import PATIENCE, PHONE, WIDE
from plain_host import PlainHost
from playwright.sync_api import Browser, Page, expect

from tinygpt.serve.server import Site
from tinygpt.site.hosting import SERVICE_WORKER

pytestmark = pytest.mark.xdist_group("page-kept")
PLACE = "some/where/"
KEPT = """async () => {
  const names = (await caches.keys()).filter((name) => name !== "tinygpt kept");
  return names.length ? (await (await caches.open(names[0])).keys()).length : 0;
}"""


def parts_to_keep(site: Path) -> int:
    stated = json.loads(
        (site / SERVICE_WORKER).read_text().partition("\n")[0].removeprefix("const BUILD = ").rstrip(";")
    )
    return len(stated["shell"]) + len(stated["later"])


def wait_until_kept(page: Page, parts: int) -> None:
    for _ in range(PATIENCE // 100):
        if page.evaluate(KEPT) == parts:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{page.evaluate(KEPT)} of {parts} are kept")


def search(page: Page, words: str) -> None:
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search all pages").fill(words)


def test_a_chapter_its_question_progress_search_and_all_of_it_offline(
    dist: Path, browser: Browser, tmp_path: Path
) -> None:
    shutil.copytree(dist, tmp_path / PLACE, ignore=shutil.ignore_patterns("*.tinygpt"))
    host = PlainHost(tmp_path)
    root = f"http://127.0.0.1:{host.port}/{PLACE}"
    context = browser.new_context(viewport=WIDE)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto(f"{root}learn/")
    page.wait_for_function("() => navigator.serviceWorker.controller")
    expect(page.locator(".far")).to_be_hidden()
    page.get_by_role("table").get_by_role("link", name="The loss, and its gradient").click()

    question = page.locator(".question")
    expect(question.locator("details")).not_to_have_attribute("open", "")
    question.get_by_label("Your answer").fill("0.75")
    page.keyboard.press("Enter")
    expect(question.get_by_role("status")).to_have_text(
        "The size is right, the sign is not. dz = p − onehot(target), and this is the target's own logit."
    )
    question.get_by_label("Your answer").fill("-0.75")
    page.keyboard.press("Enter")
    expect(question.get_by_role("status")).to_have_text("Right. The explanation is below.")
    expect(question.locator("details")).to_have_attribute("open", "")

    page.get_by_role("navigation", name="The trail").get_by_role("link", name="The trail").click()
    expect(page.locator(".far")).to_contain_text("1 of 20 chapters read, 1 question answered")
    expect(page.get_by_role("row").filter(has_text="The loss, and its gradient")).to_contain_text("answered")
    wait_until_kept(page, parts_to_keep(dist))
    host.end()

    search(page, "online softm")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Attention without the square matrix")
    assert page.url.startswith(f"{root}learn/12-online-softmax/")
    page.get_by_role("link", name="Reference", exact=True).click()
    page.get_by_role("main").get_by_role("link", name="Performance").click()
    page.wait_for_function("() => Array.from(document.images).some((picture) => picture.naturalWidth > 0)")
    page.goto(f"{root}learn/05-the-loss/")
    expect(page.locator(".question [role=status]")).to_have_text("You have answered this one.")
    page.get_by_role("link", name="Train", exact=True).first.click()
    expect(page.locator("[data-view=train]")).to_be_visible()
    context.close()
    assert not faults


@pytest.mark.parametrize("path", ["learn/", "learn/09-memory-plans/", "reference/", "step/tiny-classic/"])
def test_pages_to_read_are_for_everyone(dist: Path, browser: Browser, path: str) -> None:
    complaints: list[str] = []
    with Site(dist) as site:
        context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(site.url + path)
        page.wait_for_load_state("networkidle")
        page.evaluate(AXE.read_text())
        for figure in page.locator("[data-figure]").all():
            figure.scroll_into_view_if_needed()
            figure.locator(":scope > *").first.wait_for()
        found = list(grave_faults(page, f"{path} on a phone"))
        width = page.evaluate("document.documentElement.scrollWidth")
        page.set_viewport_size(WIDE)
        found += grave_faults(page, f"{path}, wide", ("light",))
        search(page, "gradient")
        page.get_by_role("option").first.wait_for()
        found += grave_faults(page, f"{path}, searched", ("dark",))
        context.close()
    assert width <= PHONE["width"] and not found and not complaints


def test_a_step_is_drawn_and_its_ops_can_be_chosen(dist: Path, browser: Browser) -> None:
    with Site(dist) as site:
        context = browser.new_context(viewport=WIDE)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(f"{site.url}step/")
        page.get_by_role("link", name="tiny, classic").click()
        expect(page.locator("#shelf rect")).not_to_have_count(0)
        ops = page.get_by_role("listbox", name="Ops")
        ops.focus()
        page.keyboard.press("End")
        expect(page.locator("#chosen")).to_have_text("48 record")
        page.get_by_role("tab", name="WGSL").click()
        expect(page.locator("#source")).to_contain_text("@compute")
        context.close()
