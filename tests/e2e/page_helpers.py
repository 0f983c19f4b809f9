"""What a person does on the page and sees there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

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
        motion: Literal["reduce", "no-preference"] = "reduce",
    ) -> Page:
        sites.append(site := Site(dist, isolated=isolated).__enter__())
        # A service worker would isolate the page.
        # Nothing moves by itself, so what is seen does not depend on when.
        context = browser.new_context(service_workers="allow" if isolated else "block", reduced_motion=motion)
        pages.append(page := context.new_page())
        page.set_default_timeout(PATIENCE)
        ours = (site.url, "blob:", *beyond)
        page.on("request", lambda sent: None if sent.url.startswith(ours) else elsewhere.append(sent.url))
        page.on("console", lambda said: complaints.append(said.text) if is_complaint(said, beyond) else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        prepare(page)
        page.goto(f"{site.url}#{view}")
        page.wait_for_selector("[data-phase]:not([data-phase=loading])")
        if view == "train":
            unfold(page)
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
    """The four places, and what is reached from them."""
    places = page.locator("nav[aria-label=Places] a").evaluate_all("links => links.map(({ hash }) => hash.slice(1))")
    return ["home", *places, "text", "verify", "measure", "share", "model", "class", "lesson"]


def show(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view }", view)
    page.wait_for_selector(f"[data-view={view}]:not([hidden])")


def your_model(page: Page) -> Locator:
    return page.get_by_role("region", name="Your model")


def offer_of(page: Page) -> Locator:
    """The run to continue after a reload."""
    return page.get_by_role("region", name="The run before")


def unfold(page: Page) -> None:
    """Opens Advanced, with every setting."""
    page.wait_for_selector("details.advanced")
    page.locator("details.advanced").first.evaluate("details => { details.open = true; }")


def choose_text(page: Page, source: str, text: str | None = None) -> None:
    """A text of the site by its name, "own" or "hub"; what is pasted as one's own."""
    page.locator("select[name=text]").select_option(source)
    if text is not None:
        page.get_by_label("Text to learn from").fill(text)


def let_write(page: Page, prompt: str = "", **settings: str) -> str:
    """What the current model writes, with the settings that the sliders do not have as they are there."""
    show(page, "play")
    page.get_by_label("Begin with").fill(prompt)
    for name, value in settings.items():
        page.get_by_label(name.capitalize(), exact=True).fill(value)
    press(page, "Write")
    pane = page.locator(".panes article").first
    pane.locator("[data-pace=done]").filter(has_text="letters").wait_for()
    return pane.locator(".written").inner_text()


def stat(page: Page, name: str) -> str:
    return page.locator(f"[data-stat='{name}'] dd").first.text_content() or ""


def fact(page: Page, name: str) -> str:
    return page.locator(f"[data-fact='{name}']").text_content() or ""


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
    """Of the run that is under way: while one is planned, the step is still that of the model before."""
    page.wait_for_selector("[data-stat=step]")
    page.wait_for_function(
        """least => !document.querySelector("[data-phase=planning]") &&
          Number(document.querySelector("[data-stat='step'] dd").textContent.replaceAll(",", "")) >= least""",
        arg=least,
    )


def stop(page: Page) -> int:
    press(page, "Stop")
    page.wait_for_selector("[data-phase=idle]")
    return step(page)


def save(page: Page, folder: Path, button: str = "Save") -> Path:
    with page.expect_download() as download:
        press(page, button)
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file
