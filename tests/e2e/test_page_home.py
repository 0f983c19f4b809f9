"""The first screen: a text that writes itself, the way to a model of one's own, and what was left unfinished."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from page_helpers import (
    PHONE,
    OpenPage,
    choose_text,
    click,
    offer_of,
    press,
    show,
    stat,
    step,
    stop,
    wait_for_step,
    your_model,
)
from page_toy import wait_until_kept
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.xdist_group("page")
POEM = "Full fathom five thy father lies; of his bones are coral made. " * 40
LARGEST = 250_000  # bytes of the first load, compressed, without worker and models
SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifted += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
}"""


def test_a_text_writes_itself_and_can_be_dragged_and_moved_by_keys(open_page: OpenPage) -> None:
    page = open_page(view="", motion="no-preference", prepare=lambda page: page.add_init_script(f"({SHIFTS})()"))
    film = page.locator("[data-film]")
    expect(film).to_have_attribute("data-film", "playing")  # without a click
    first = film.locator("[data-step]").get_attribute("data-step")
    page.wait_for_function("first => document.querySelector('[data-step]').dataset.step !== first", arg=first)
    press(page, "Pause")
    expect(film).to_have_attribute("data-film", "still")
    assert page.evaluate("window.shifted") < 0.01
    slider = page.get_by_role("slider", name="Seconds of training")
    slider.fill("1000")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"\d+ s of training, loss 1\.\d\d"))
    written = film.locator(".written").inner_text()
    slider.press("ArrowLeft")
    expect(film.locator("[data-step]")).to_have_attribute("data-step", "1080")
    assert film.locator(".written").inner_text() != written


def test_without_motion_it_shows_how_it_ends(open_page: OpenPage) -> None:
    page = open_page(view="")
    expect(page.locator("[data-film=still] [data-step='1200']")).to_be_visible()


def test_the_first_load_is_small(dist: Path) -> None:
    """The document, what it names, and what those scripts import, compressed; fonts are."""
    assert 100_000 < weight(scripts_of(dist, dist / "index.html")) < LARGEST


def test_what_comes_before_the_first_step_is_small(dist: Path) -> None:
    """With the view that trains, the worker, Python and a build of the kernels; texts and models aside."""
    parts = [*(dist / "_astro").glob("Train.*.js"), *(dist / "_astro").glob("worker*.js")]
    python = [*(dist / "_astro").glob("micropython*.wasm"), dist / "kernels" / "relaxed-threads.wasm"]
    assert len(parts) == 2 and len(python) == 2
    assert weight(scripts_of(dist, dist / "index.html", *parts)) + weight(python) < 750_000


def scripts_of(dist: Path, *parts: Path) -> set[Path]:
    """Those files, what they name of the site's scripts, styles and fonts, and so on."""
    found: set[Path] = set()
    wanted = set(parts)
    while new := wanted - found:
        found |= new
        for file in new:
            if file.suffix == ".html":
                named = re.findall(r"_astro/([\w.-]+?\.(?:js|css|woff2))", file.read_text())
            elif file.suffix == ".js":
                named = re.findall(r"(?:from|import)[`\"']\./([\w.-]+\.js)", file.read_text())
            else:
                named = []
            wanted |= {dist / "_astro" / name for name in named}
    return found


def weight(files: Iterable[Path]) -> int:
    """As they are sent: compressed, but for fonts, which are."""
    return sum(
        file.stat().st_size if file.suffix == ".woff2" else len(gzip.compress(file.read_bytes())) for file in files
    )


def test_a_text_of_ones_own_is_learned_from_scratch_in_three_steps(open_page: OpenPage) -> None:
    page = open_page(view="home")
    click(page.get_by_role("link", name="Use my own text"))
    view = page.locator("[data-view=text]")
    go = view.get_by_role("button", name="Train for 1 minute")
    expect(go).to_be_disabled()
    expect(view).to_contain_text("Paste some text first, or choose a file.")
    view.get_by_label("Text to learn from").fill(POEM)
    expect(view.get_by_role("button", name="Teach it")).to_be_enabled()  # the text is short
    click(view.get_by_role("radio", name="A new model, in one minute"))
    click(go)
    page.wait_for_selector("[data-phase=training]")
    wait_for_step(page, 20)
    stop(page)
    wait_until_kept(page)
    page.reload()
    expect(offer_of(page)).to_contain_text("Continue Your own text, 1 minute, step ")
    show(page, "home")
    click(offer_of(page).get_by_role("button").first)
    page.wait_for_selector("[data-phase=training]")
    stop(page)
    expect(your_model(page)).to_contain_text("Your own text, 1 minute")


@pytest.mark.slow
def test_a_run_of_a_minute_ends_within_it_and_says_what_it_was(open_page: OpenPage) -> None:
    page = open_page(view="home")
    press(page, "Train yours now · 1 minute")
    expect(page.get_by_role("heading", level=1)).to_have_text("Measuring this machine, to choose the best size")
    page.wait_for_selector("[data-phase=training]", timeout=60_000)
    said = page.get_by_role(
        "heading", name=re.compile(r"You just trained a language model: \d+ seconds, [\d,]+ numbers\.")
    )
    expect(said).to_be_visible(timeout=90_000)
    assert step(page) > 0 and 1 < float(stat(page, "validation")) < 4
    expect(page.get_by_role("slider", name="Seconds of training")).to_be_visible()
    click(page.get_by_role("link", name="Ask it something"))
    press(page, "Write")
    expect(page.locator("[data-pace=done]")).to_contain_text("320 letters")


def test_a_task_is_learned_and_asked_what_its_text_never_asks(open_page: OpenPage) -> None:
    page = open_page()
    choose_text(page, "task:sorting")
    page.get_by_label("Size or time").select_option("tiny")
    press(page, "Train")
    page.wait_for_selector("[data-stat=right]")  # after the first validation
    stop(page)
    assert "64 unseen" in page.locator("[data-stat=right]").inner_text()
    expect(page.locator("[data-coach]")).to_contain_text("of 100 questions that its text never asks")
    answers = page.get_by_role("list", name="What it answered").get_by_role("listitem")
    question = answers.first.inner_text().partition("=")[0]
    click(page.get_by_role("link", name="Ask it something"))
    expect(page.get_by_label("Begin with")).to_have_value(f"{question}=")
    page.locator("[data-pace=done]").filter(has_text="letters").wait_for()
    show(page, "train")
    wait_until_kept(page)
    page.reload()
    page.wait_for_selector("[data-phase=idle]")
    show(page, "train")
    click(offer_of(page).get_by_role("button").first)
    page.wait_for_selector("[data-phase=training]")
    expect(page.locator("[data-stat=right]")).to_be_visible()  # it was told before the reload
    stop(page)


def test_on_a_phone_a_model_is_trained_looked_into_and_sent_as_a_file(
    open_page: OpenPage, browser: Browser, tmp_path: Path
) -> None:
    page = open_page(view="home", prepare=lambda page: page.set_viewport_size(PHONE))
    click(page.get_by_role("navigation", name="Places").get_by_role("link", name="Train"))
    page.get_by_label("Size or time").select_option("tiny")
    press(page, "Train")
    wait_for_step(page, 30)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_in_viewport(ratio=1)
    expect(page.locator("[data-written]")).not_to_be_empty()
    stop(page)
    click(page.get_by_role("link", name="Look inside").last)
    expect(page.locator("[data-inside=step]")).to_be_visible()
    show(page, "train")
    click(page.get_by_role("link", name="Share it"))
    with page.expect_download() as download:
        press(page, "Save the page")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    other = browser.new_page(viewport=PHONE, reduced_motion="reduce")
    other.goto(file.as_uri())
    expect(other.locator("[data-text]")).not_to_be_empty()
    other.close()
