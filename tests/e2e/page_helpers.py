"""What a person does on the page and sees there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

OpenPage = Callable[..., Page]


def stat(page: Page, name: str) -> str:
    return page.locator(f"[data-stat='{name}'] dd").first.inner_text()


def fact(page: Page, name: str) -> str:
    return page.locator(f"[data-fact='{name}']").inner_text()


def step(page: Page) -> int:
    return int(stat(page, "step").replace(",", ""))


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


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
