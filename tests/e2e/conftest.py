"""The built page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_helpers import FLAGS, PATIENCE, OpenPage, opener
from playwright.sync_api import Browser, Playwright, expect

from tinygpt.engines.runner import find_chromium, webgpu_flags
from tinygpt.site.build import build


@pytest.fixture(scope="session")
def dist() -> Path:
    return build()


@pytest.fixture(scope="session")
def launch(playwright: Playwright) -> Iterator[Callable[[list[str]], Browser]]:
    """Starts a browser with further flags."""
    expect.set_options(timeout=PATIENCE)
    chromium = find_chromium()
    assert chromium is not None, "these tests drive Chromium; install it, or run make setup"
    browsers: list[Browser] = []

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
