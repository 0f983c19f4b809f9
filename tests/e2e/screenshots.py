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
    click,
    opener,
    press,
    show,
    stop,
    view_names,
    wait_for_step,
)
from page_toy import wait_until_kept
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tinygpt.engines.runner import find_chromium
from tinygpt.site.build import build

POEM = "Full fathom five thy father lies; of his bones are coral made. " * 40
SHEET = """<!doctype html><meta charset="utf-8"><title>TinyGPT: the page</title>
<style>body{{font:16px sans-serif;margin:2rem}}div{{display:flex;gap:1rem;align-items:start}}
img{{border:1px solid #999;max-height:40rem;object-fit:cover;object-position:top}}</style>{rows}"""


class Album:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: dict[str, list[str]] = {}

    def take(self, page: Page, state: str) -> None:
        self.states[state] = []
        slug = re.sub(r"\W+", "-", state)
        for size, scheme in product((WIDE, PHONE), ("light", "dark")):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
            page.wait_for_timeout(150)  # charts are drawn anew
            name = f"{slug}-{'phone' if size is PHONE else 'wide'}-{scheme}.png"
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
    check(page.get_by_label(size, exact=True))
    if text:
        check(page.get_by_label("Your own"))
        page.get_by_label("Text to learn from").fill(text)
    press(page, "Train")
    page.wait_for_selector("[data-phase=training]")
    wait_for_step(page, steps)


def first_look(page: Page, album: Album, folder: Path) -> None:
    for view in view_names(page):
        show(page, view)
        album.take(page, f"{view}, nothing yet")


def texts(page: Page, album: Album, folder: Path) -> None:
    show(page, "train")
    check(page.get_by_label("Your own"))
    page.get_by_label("Text to learn from").fill(POEM)
    press(page, "more about this text")
    album.take(page, "a text of one's own")
    check(page.get_by_label("Hugging Face"))
    click(page.locator("summary", has_text="Settings"))
    album.take(page, "Hugging Face, and all settings")


def run(page: Page, album: Album, folder: Path) -> None:
    show(page, "start")
    press(page, "Train for 3 minutes")
    expect(page.get_by_role("status").first).to_contain_text("Measuring this machine")
    album.take(page, "measuring before a run")
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
    train(page, "tiny", 500)
    album.take(page, "a run under way")
    show(page, "inside")
    expect(page.locator("[data-inside=attention]")).to_be_visible()
    page.wait_for_timeout(1000)
    album.take(page, "inside a run under way")
    show(page, "train")
    stop(page)
    wait_until_kept(page)
    album.take(page, "a run that was stopped")
    page.reload()
    expect(page.get_by_role("region", name="The run before")).to_be_visible()
    album.take(page, "after a reload")


def writing(page: Page, album: Album, folder: Path) -> None:
    show(page, "start")
    click(page.get_by_role("region", name="Play with a trained model").get_by_role("button").first)
    expect(page.locator("[data-pace]")).to_contain_text("320 bytes")
    page.locator(".panes pre").press("ArrowRight")
    expect(page.get_by_role("list", name="What could come next")).to_be_visible()
    album.take(page, "written, and what could come next")
    page.get_by_label("beside").select_option("moby-dick")
    expect(page.get_by_role("article", name="moby-dick.tinygpt")).to_be_visible()
    page.get_by_label("Begin with").fill("The sea")
    press(page, "Write")
    expect(page.locator("[data-pace]").last).to_contain_text("320 bytes")
    album.take(page, "two models beside each other")
    show(page, "inside")
    expect(page.locator("[data-inside=attention]")).to_be_visible()
    check(page.get_by_label("attention", exact=True))
    album.take(page, "inside a model of ours")


def teaching(page: Page, album: Album, folder: Path) -> None:
    show(page, "start")
    press(page, "Choose a text for it")
    expect(page.get_by_role("alert").first).to_contain_text("Loaded ")
    check(page.get_by_role("radio", name="Moby-Dick"))
    expect(page.locator("[data-fact=adapter]")).to_be_visible()
    album.take(page, "a model to be taught another text")
    page.locator("input[name=steps]").fill("150")
    press(page, "Teach")
    expect(page.get_by_role("status").first).to_contain_text("Finished", timeout=120_000)
    wait_until_kept(page)
    album.take(page, "a model that was taught another text")
    show(page, "write")
    page.get_by_label("beside").select_option("=base")
    expect(page.locator(".panes article")).to_have_count(2)
    page.get_by_label("Begin with").fill("The whale")
    press(page, "Write")
    expect(page.locator("[data-pace]").last).to_contain_text("320 bytes")
    album.take(page, "with its adapter, and without")
    show(page, "library")
    expect(page.get_by_role("article", name="shakespeare-small taught Moby-Dick")).to_be_visible()
    album.take(page, "an adapter in the library")


def library(page: Page, album: Album, folder: Path) -> None:
    for size, steps in (("tiny", 300), ("small", 40)):
        train(page, size, steps, POEM)
        stop(page)
        wait_until_kept(page)
    show(page, "library")
    expect(page.get_by_role("heading", name="2 runs")).to_be_visible()
    for box in page.get_by_role("checkbox", name="Compare").all():
        check(box)
    expect(page.get_by_role("region", name="Comparison")).to_be_visible()
    click(page.get_by_role("button", name="Travel back").last)
    press(page, "Let each write")
    expect(page.get_by_role("button", name="Let each write", exact=True)).to_be_enabled()
    album.take(page, "a library of two runs")
    with page.expect_download() as capsule:
        click(page.get_by_role("button", name="Share").last)
    file = folder / "capsule.json"
    capsule.value.save_as(file)
    show(page, "replay")
    page.get_by_label("Open a capsule").set_input_files(file)
    page.locator("input[name=replayed]").fill("60")
    page.locator("input[name=replayed]").blur()
    album.take(page, "a capsule")
    press(page, "Replay")
    expect(page.locator("[data-verdict=equal]")).to_be_visible()
    album.take(page, "a capsule that was replayed")


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
    check(page.get_by_label("Your own"))
    page.get_by_label("Text to learn from").fill("short")
    press(page, "Train")
    expect(page.get_by_role("alert").first).to_contain_text("use a longer text")
    album.take(page, "a text that is too short")
    file = folder / "a-long-name-of-a-file-that-somebody-has-found-somewhere-and-that-is-no-model-at-all.tinygpt"
    file.write_bytes(b"not a model at all")
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)
    expect(page.get_by_role("alert").first).to_contain_text("this is no .tinygpt file")
    album.take(page, "a file that is no model")
    show(page, "replay")
    page.get_by_label("Open a capsule").set_input_files(file)
    expect(page.get_by_role("alert").last).not_to_be_empty()
    album.take(page, "a file that is no capsule")


def without_worker(page: Page) -> None:
    page.route("**/worker*.js", lambda route: route.abort())


Scene = Callable[[Page, Album, Path], None]
SCENES: list[Scene] = [first_look, texts, run, writing, teaching, library, measured, faults]


def take_all(open_page: OpenPage, album: Album, folder: Path) -> None:
    for scene in SCENES:
        print(scene.__name__, flush=True)
        scene(open_page(view="start"), album, folder)
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
