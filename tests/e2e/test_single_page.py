"""A page of one file, opened from a disk: it writes what the terminal writes with the model that is in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from other_browsers import Tab, tab_of
from page_access import AXE, GRAVE, Scheme
from playwright.sync_api import Browser, Page, expect

import tinygpt
from tinygpt.store.bundled import named
from tinygpt.store.formats import load_file, save_model

PROMPTS = {
    "addition": "12+34=",
    "moby-dick": "Call me ",
    "python": "def ",
    "shakespeare-huge": "To be, ",
    "shakespeare-small": "To be, ",
}
SMALLEST = {"shakespeare-small": PROMPTS["shakespeare-small"]}
LENGTH = 300  # more than the window of any of them, so that it is read again
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WRITE = """(prompt, temperature, length) => {
  const set = (name, value) => {
    const input = document.querySelector(name);
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  set("textarea", prompt);
  set("[name=temperature]", temperature);
  set("[name=length]", length);
  document.querySelector("form").requestSubmit();
}"""
READY = "() => document.querySelector('[data-state=ready]') !== null"
TEXT = "() => document.querySelector('[data-text]').textContent"


class Chromium(Tab):
    def __init__(self, page: Page, folder: Path) -> None:
        super().__init__(folder)
        self.page = page
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("request", lambda request: request.url.startswith("file:") or self.complaints.append(request.url))

    def open(self, url: str) -> None:
        self.page.goto(url)

    def call(self, function: str, *arguments: str) -> Any:
        return self.page.evaluate(f"(given) => ({function})(...given)", list(arguments))

    def choose(self, selector: str, file: Path) -> None:
        self.page.locator(selector).set_input_files(file)


@contextmanager
def tab_in(browser: str, chromium: Browser, folder: Path) -> Iterator[Tab]:
    if browser == "chromium":
        page = chromium.new_page()
        yield Chromium(page, folder)
        page.close()
    else:
        with tab_of(browser, folder) as tab:
            yield tab


def written(tab: Tab, prompt: str, temperature: float = 0) -> str:
    tab.until(READY)
    tab.call(WRITE, prompt, str(temperature), str(LENGTH))
    tab.until(READY)
    return str(tab.call(TEXT))


@pytest.mark.parametrize(
    ("browser_name", "models"),
    [
        ("chromium", PROMPTS),
        ("firefox", SMALLEST),
        ("webkit", SMALLEST),
        pytest.param("firefox", PROMPTS, marks=pytest.mark.slow),
        pytest.param("webkit", PROMPTS, marks=pytest.mark.slow),
    ],
)
def test_every_bundled_model_writes_what_the_terminal_writes(
    browser_name: str, models: dict[str, str], browser: Browser, dist: Path, tmp_path: Path
) -> None:
    assert PROMPTS.keys() == named().keys()
    with tab_in(browser_name, browser, tmp_path) as tab:
        for name, prompt in models.items():
            page = tmp_path / f"{name}.html"
            save_model(page, load_file(named()[name]), prompt=prompt)
            tab.open(page.as_uri())
            expected = tinygpt.load(page).generate(prompt, tokens=LENGTH, temperature=0)
            assert written(tab, prompt) == prompt + expected, name
        assert not tab.complaints


@pytest.fixture
def opened(browser: Browser, dist: Path, tmp_path: Path) -> Iterator[Page]:
    """The page of a small model, which keeps still."""
    save_model(tmp_path / "page.html", load_file(named()["addition"]), title="Sums", prompt="12+34=")
    page = browser.new_page(accept_downloads=True, reduced_motion="reduce")
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("[data-state=ready]")).to_be_visible()
    yield page
    page.close()


def test_draws_are_the_terminals_too_and_each_press_has_another_seed(opened: Page, tmp_path: Path) -> None:
    model = tinygpt.load(tmp_path / "page.html")
    texts = [model.generate("12+34=", tokens=LENGTH, temperature=0.8, seed=seed) for seed in (1337, 1338)]
    expect(opened.locator("[data-text]")).to_have_text(f"12+34={texts[0]}", use_inner_text=False)
    opened.get_by_role("button", name="Write").click()
    expect(opened.locator("[data-text]")).to_have_text(f"12+34={texts[1]}", use_inner_text=False)
    assert texts[0] != texts[1]


def test_the_model_can_be_taken_out_of_the_page(opened: Page, tmp_path: Path) -> None:
    with opened.expect_download() as download:
        opened.get_by_role("button", name="Save the model as a file").click()
    assert download.value.suggested_filename == "Sums.tinygpt"
    download.value.save_as(tmp_path / "saved.tinygpt")
    assert (load_file(tmp_path / "saved.tinygpt").state.w == load_file(tmp_path / "page.html").state.w).all()


def test_a_long_text_can_be_stopped(browser: Browser, dist: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "page.html", load_file(named()["addition"]))
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("[data-state=ready]")).to_be_visible()
    page.locator("[name=length]").fill("4000")
    page.get_by_role("button", name="Write").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-state=ready]")).to_be_visible()
    assert len(page.locator("[data-text]").text_content() or "") < 4000
    page.close()


def test_nothing_grave_is_in_the_way_of_anybody(opened: Page) -> None:
    opened.evaluate(AXE.read_text(encoding="utf-8"))
    for scheme in SCHEMES:
        opened.emulate_media(color_scheme=scheme)
        assert opened.evaluate(GRAVE) == []
