"""What axe-core finds on the page, and where keys lead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Page

from tinygpt.site.build import WEB

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = """async () => {
  const { violations } = await axe.run({ resultTypes: ["violations"] });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}"""
FOCUSED = """() => {
  const focused = document.activeElement;
  let around = focused;  // a row of the table stands for its button
  while (around && getComputedStyle(around).outlineStyle === "none") around = around.parentElement;
  return { html: focused.outerHTML.slice(0, 200), name: focused.innerText ?? "", seen: around !== null };
}"""
Scheme = Literal["light", "dark"]


def grave_faults(page: Page, state: str, schemes: tuple[Scheme, ...] = ("light", "dark")) -> Iterator[str]:
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        for fault in page.evaluate(GRAVE):
            yield f"{state}, {scheme}: {fault}"


def tab_to(page: Page, name: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert focused["seen"], focused
        if focused["name"] == name:
            return
    raise AssertionError(f"keys do not lead to {name}")
