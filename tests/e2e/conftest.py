"""The built page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page_helpers import OpenPage
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tinygpt.engines.runner import find_chromium, webgpu_flags
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
def launch() -> Iterator[Callable[[list[str]], Browser]]:
    """Starts a browser with further flags."""
    expect.set_options(timeout=PATIENCE)
    chromium = find_chromium()
    assert chromium is not None, "these tests drive Chromium; install it, or run make setup"
    browsers: list[Browser] = []
    with sync_playwright() as playwright:

        def launched(flags: list[str]) -> Browser:
            browsers.append(playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *flags]))
            return browsers[-1]

        yield launched
        for browser in browsers:
            browser.close()


@pytest.fixture(scope="session")
def browser(launch: Callable[[list[str]], Browser]) -> Browser:
    """Without WebGPU, as Chromium is on a machine without a GPU."""
    return launch([])


@pytest.fixture(scope="session")
def webgpu_browser(launch: Callable[[list[str]], Browser]) -> Browser:
    """With WebGPU, on SwiftShader, so that results do not depend on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGPT_WEBGPU_ADAPTER", "swiftshader")
        return launch(webgpu_flags())


@pytest.fixture
def open_page(dist: Path, browser: Browser) -> Iterator[OpenPage]:
    with opener(dist, browser) as opened:
        yield opened


@pytest.fixture
def open_webgpu_page(dist: Path, webgpu_browser: Browser) -> Iterator[OpenPage]:
    with opener(dist, webgpu_browser) as opened:
        yield opened


@contextmanager
def opener(dist: Path, browser: Browser) -> Iterator[OpenPage]:
    """Opens the page, ready to train. Whatever a test does, nothing is asked of another host, and nothing goes wrong
    that only the console tells, such as a script that the page's policy forbids."""
    sites: list[Site] = []
    pages: list[Page] = []
    elsewhere: list[str] = []
    complaints: list[str] = []

    def opened(isolated: bool = True, prepare: Callable[[Page], object] = lambda page: None) -> Page:
        sites.append(site := Site(dist, isolated=isolated).__enter__())
        pages.append(page := browser.new_page())
        page.set_default_timeout(PATIENCE)
        page.on(
            "request", lambda sent: None if sent.url.startswith((site.url, "blob:")) else elsewhere.append(sent.url)
        )
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
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
    assert not complaints
