"""The built page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_helpers import OpenPage
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tinygpt.engines.runner import find_chromium
from tinygpt.server import Site
from tinygpt.site import build

FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 20_000  # ms


@pytest.fixture(scope="session")
def dist() -> Path:
    return build()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    chromium = find_chromium()
    assert chromium is not None, "these tests drive Chromium; install it, or run make setup"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(dist: Path, browser: Browser) -> Iterator[OpenPage]:
    """Opens the page, ready to train. Whatever a test does, nothing is asked of another host."""
    sites: list[Site] = []
    pages: list[Page] = []
    elsewhere: list[str] = []

    def opened(isolated: bool = True, prepare: Callable[[Page], object] = lambda page: None) -> Page:
        sites.append(site := Site(dist, isolated=isolated).__enter__())
        pages.append(page := browser.new_page())
        page.set_default_timeout(PATIENCE)
        page.on(
            "request", lambda sent: None if sent.url.startswith((site.url, "blob:")) else elsewhere.append(sent.url)
        )
        prepare(page)
        page.goto(site.url)
        page.wait_for_selector("[data-phase]:not([data-phase=loading])")
        return page

    yield opened
    for page in pages:
        page.close()
    for site in sites:
        site.__exit__(None, None, None)
    assert not elsewhere
