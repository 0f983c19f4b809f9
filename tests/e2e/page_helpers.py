"""What a person does on the page and sees there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, ViewportSize

from tinygpt.serve.server import Site

OpenPage = Callable[..., Page]
PATIENCE = 120_000  # ms: a wait ends with what it waits for, so a busy machine may take its time
PHONE: ViewportSize = {"width": 390, "height": 844}
WIDE: ViewportSize = {"width": 1280, "height": 800}
FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def opener(dist: Path, browser: Browser) -> Iterator[OpenPage]:
    """Opens the page, ready to train. Whatever a test does, nothing is asked of a host but the page's own and those
    `beyond`, and nothing goes wrong that only the console tells, such as a script that the page's policy forbids."""
    sites: list[Site] = []
    pages: list[Page] = []
    elsewhere: list[str] = []
    complaints: list[str] = []

    def opened(
        isolated: bool = True,
        prepare: Callable[[Page], object] = lambda page: None,
        beyond: tuple[str, ...] = (),
        view: str = "train",
    ) -> Page:
        sites.append(site := Site(dist, isolated=isolated).__enter__())
        # A service worker would isolate the page.
        pages.append(page := browser.new_context(service_workers="allow" if isolated else "block").new_page())
        page.set_default_timeout(PATIENCE)
        ours = (site.url, "blob:", *beyond)
        page.on("request", lambda sent: None if sent.url.startswith(ours) else elsewhere.append(sent.url))
        page.on("console", lambda said: complaints.append(said.text) if is_complaint(said, beyond) else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        prepare(page)
        page.goto(f"{site.url}#{view}")
        page.wait_for_selector("[data-phase]:not([data-phase=loading])")
        return page

    yield opened
    for page in pages:
        page.context.close()
    for site in sites:
        site.__exit__(None, None, None)
    assert not elsewhere, elsewhere
    assert not complaints, complaints


def is_complaint(said: ConsoleMessage, beyond: tuple[str, ...]) -> bool:
    """But for a status that another host answers with."""
    return said.type == "error" and not (beyond and said.location["url"].startswith(beyond))


def view_names(page: Page) -> list[str]:
    """Of the tabs, so that a new view is among them."""
    return page.locator("nav[aria-label=Views] a").evaluate_all("links => links.map(({ hash }) => hash.slice(1))")


def show(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view }", view)
    page.wait_for_selector(f"nav a[href='#{view}'][aria-current]")


def stat(page: Page, name: str) -> str:
    return page.locator(f"[data-stat='{name}'] dd").first.inner_text()


def fact(page: Page, name: str) -> str:
    return page.locator(f"[data-fact='{name}']").inner_text()


def step(page: Page) -> int:
    return int(stat(page, "step").replace(",", ""))


def click(target: Locator) -> None:
    """Clicks what can be clicked and is not covered. The click is a call, so it cannot miss a target that moves."""
    target.click(trial=True)
    target.evaluate("element => element.click()")


def check(box: Locator) -> None:
    if not box.is_checked():
        click(box)


def press(page: Page, name: str) -> None:
    click(page.get_by_role("button", name=name, exact=True))


def wait_for_step(page: Page, least: int) -> None:
    page.wait_for_function(
        """least => Number(document.querySelector("[data-stat='step'] dd").innerText.replace(",", "")) >= least""",
        arg=least,
    )


def stop(page: Page) -> int:
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
    return step(page)


def save(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        press(page, "Save")
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file
