"""Pictures of the page's main states, wide and on a phone, light and dark, with a sheet to look them all over.

python tests/e2e/screenshots.py FOLDER    (make screenshots)
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from page_helpers import (
    FLAGS,
    PATIENCE,
    PHONE,
    WIDE,
    OpenPage,
    check,
    choose_text,
    click,
    offer_of,
    opener,
    press,
    show,
    stop,
    unfold,
    view_names,
    wait_for_step,
)
from page_toy import wait_until_kept
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tinygpt.engines.runner import find_chromium
from tinygpt.site.build import build

POEM = "Full fathom five thy father lies; of his bones are coral made. " * 40
SHEET = """<!doctype html><meta charset="utf-8"><title>TinyGPT: the page</title>
<style>body{{font:16px sans-serif;margin:2rem}}div{{display:flex;gap:1rem;align-items:start}}
img{{border:1px solid #999;max-height:40rem;object-fit:cover;object-position:top}}</style>{rows}"""


SIZES: dict[str, ViewportSize] = {"wide": WIDE, "phone": PHONE, "large": {"width": 1920, "height": 1080}}


class Album:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: dict[str, list[str]] = {}

    def take(self, page: Page, state: str) -> None:
        self.states[state] = []
        slug = re.sub(r"\W+", "-", state)
        for (width, size), scheme in product(SIZES.items(), ("light", "dark")):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
            page.wait_for_timeout(150)  # charts are drawn anew
            name = f"{slug}-{width}-{scheme}.png"
            page.screenshot(path=self.folder / name, full_page=True)
            self.states[state].append(name)
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")

    def bind(self) -> None:
        rows = []
        for state, names in self.states.items():
            pictures = "".join(f"<a href={name}><img src={name} alt={name}></a>" for name in names)
            rows.append(f"<h2>{html.escape(state)}</h2><div>{pictures}</div>")
        (self.folder / "index.html").write_text(SHEET.format(rows="".join(rows)))


def train(page: Page, size: str, steps: int, text: str | None = None) -> None:
    show(page, "train")
    page.get_by_label("Size or time").select_option(size)
    if text:
        choose_text(page, "own", text)
    press(page, "Train")
    page.wait_for_selector("[data-phase=training]")
    wait_for_step(page, steps)


def first_look(page: Page, album: Album, folder: Path) -> None:
    slider = page.get_by_role("slider", name="Seconds of training")
    for place, state in (("60", "noise"), ("400", "words"), ("1000", "lines")):
        slider.fill(place)
        album.take(page, f"the first screen: {state}")
    for view in view_names(page)[1:]:
        show(page, view)
        album.take(page, f"{view}, nothing yet")


def texts(page: Page, album: Album, folder: Path) -> None:
    show(page, "text")
    view = page.locator("[data-view=text]")
    view.get_by_label("Text to learn from").fill(POEM)
    press(page, "more about this text")
    album.take(page, "a text of one's own")
    check(view.get_by_label("A Hugging Face dataset"))
    album.take(page, "a dataset of Hugging Face")
    show(page, "train")
    unfold(page)
    album.take(page, "all settings")


def run(page: Page, album: Album, folder: Path) -> None:
    press(page, "Train yours now · 1 minute")
    expect(page.get_by_role("status").first).to_contain_text("Measuring this machine")
    album.take(page, "measuring before a run")
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
    train(page, "tiny", 500)
    album.take(page, "a run under way")
    show(page, "inside")
    expect(page.locator("[data-inside=tower]")).to_be_visible()
    page.wait_for_timeout(1000)
    album.take(page, "inside a run under way")
    show(page, "train")
    stop(page)
    wait_until_kept(page)
    album.take(page, "a run that was stopped")
    page.reload()
    expect(offer_of(page)).to_be_visible()
    album.take(page, "after a reload")


def writing(page: Page, album: Album, folder: Path) -> None:
    click(page.get_by_role("button", name="Come, good my mind"))
    done = page.locator("[data-pace=done]").filter(has_text="320 letters")
    done.wait_for()
    check(page.get_by_label("Colour by surprise"))
    page.wait_for_function("() => document.querySelectorAll('.panes .written span').length > 5")
    album.take(page, "written, coloured by surprise")
    page.locator(".panes .written").press("ArrowRight")
    expect(page.get_by_role("list", name="What could come next")).to_be_visible()
    album.take(page, "what could come next")
    page.get_by_label("Compare with", exact=True).select_option("moby-dick")
    expect(page.get_by_role("article", name="moby-dick.tinygpt")).to_be_visible()
    page.get_by_label("Begin with").fill("The sea")
    press(page, "Write")
    done.last.wait_for()
    album.take(page, "two models beside each other")
    show(page, "inside")
    expect(page.locator("[data-inside=tower]")).to_be_visible()
    album.take(page, "inside a bundled model")


def teaching(page: Page, album: Album, folder: Path) -> None:
    show(page, "text")
    view = page.locator("[data-view=text]")
    view.get_by_label("Text to learn from").fill(POEM)
    press(page, "Teach it")
    page.wait_for_selector("[data-phase=training]")
    wait_for_step(page, 150)
    stop(page)
    wait_until_kept(page)
    album.take(page, "a model that was taught a text")
    show(page, "play")
    page.get_by_label("Compare with", exact=True).select_option("=base")
    expect(page.locator(".panes article")).to_have_count(2)
    page.get_by_label("Begin with").fill("The whale")
    press(page, "Write")
    page.locator("[data-pace=done]").filter(has_text="320 letters").last.wait_for()
    album.take(page, "with its adapter, and without")


def library(page: Page, album: Album, folder: Path) -> None:
    for size, steps in (("tiny", 300), ("small", 40)):
        train(page, size, steps, POEM)
        stop(page)
        wait_until_kept(page)
        press(page, "Train a new model instead")
    show(page, "models")
    expect(page.get_by_text("2 runs, ")).to_be_visible()
    album.take(page, "two models")
    for box in page.get_by_role("checkbox", name="Compare").all():
        check(box)
    expect(page.get_by_role("region", name="Comparison")).to_be_visible()
    click(page.get_by_role("button", name="Watch it learn").last)
    press(page, "Show what it wrote")
    expect(page.get_by_role("button", name="Show what it wrote", exact=True)).to_be_enabled()
    album.take(page, "two models compared, and one watched")
    show(page, "train")
    with page.expect_download() as capsule:
        press(page, "Save a proof")
    file = folder / "capsule.json"
    capsule.value.save_as(file)
    show(page, "verify")
    page.get_by_label("Open a capsule").set_input_files(file)
    page.locator("input[name=replayed]").fill("20")
    page.locator("input[name=replayed]").blur()
    album.take(page, "a proof")
    press(page, "Replay")
    expect(page.locator("[data-verdict=equal]")).to_be_visible()
    album.take(page, "a proof that was replayed")


def measured(page: Page, album: Album, folder: Path) -> None:
    show(page, "measure")
    page.get_by_label("Size").select_option("small")
    press(page, "Measure")
    expect(page.get_by_role("status")).to_contain_text("Reading")
    album.take(page, "a machine being measured")
    expect(page.get_by_label("The result, to copy")).to_be_visible(timeout=120_000)
    album.take(page, "a machine that was measured")


def faults(page: Page, album: Album, folder: Path) -> None:
    show(page, "train")
    page.get_by_label("Size or time").select_option("tiny")
    choose_text(page, "own", "short")
    press(page, "Train")
    expect(page.get_by_role("alert").first).to_contain_text("use a longer text")
    album.take(page, "a text that is too short")
    file = folder / "a-long-name-of-a-file-that-somebody-has-found-somewhere-and-that-is-no-model-at-all.tinygpt"
    file.write_bytes(b"not a model at all")
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)
    expect(page.get_by_role("alert").first).to_contain_text("cannot be loaded")
    album.take(page, "a file that is no model")
    show(page, "verify")
    page.get_by_label("Open a capsule").set_input_files(file)
    expect(page.get_by_role("alert").last).not_to_be_empty()
    album.take(page, "a file that is no proof")


def without_worker(page: Page) -> None:
    page.route("**/worker*.js", lambda route: route.abort())


Scene = Callable[[Page, Album, Path], None]
SCENES: list[Scene] = [first_look, texts, run, writing, teaching, library, measured, faults]


def take_all(open_page: OpenPage, album: Album, folder: Path) -> None:
    for scene in SCENES:
        print(scene.__name__, flush=True)
        scene(open_page(view="home"), album, folder)
    album.take(open_page(isolated=False), "a host without the headers")
    album.take(open_page(prepare=without_worker), "a worker that cannot start")


def main(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for old in into.glob("*.png"):
        old.unlink()
    expect.set_options(timeout=PATIENCE)
    album = Album(into)
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser: Browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        with opener(build(), browser) as open_page:
            take_all(open_page, album, Path(folder))
        browser.close()
    album.bind()
    print(f"{sum(map(len, album.states.values()))} pictures: {into / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
