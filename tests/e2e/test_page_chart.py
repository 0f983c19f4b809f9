"""While it trains: what the chart can draw, how hard the machine is pressed, and a screen that stays on."""

from __future__ import annotations

import re

import pytest
from page_helpers import OpenPage, check, click, press, show, stop, wait_for_step
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.xdist_group("page")

FAKES = """
window.locks = [];
Object.defineProperty(navigator, "wakeLock", { value: { request: async (kind) => {
  window.locks.push(kind);
  return { release: async () => void window.locks.pop() };
} } });
window.PressureObserver = class {
  constructor(told) { this.told = told; }
  async observe() { this.told([{ state: "serious" }]); }
  disconnect() {}
};
"""


def still(chart: Locator) -> bytes:
    """A picture of it once nothing moves in it any more."""
    before, now = b"", chart.screenshot()
    while now != before:
        chart.page.wait_for_timeout(150)
        before, now = now, chart.screenshot()
    return now


@pytest.mark.slow
def test_the_chart_the_pressure_and_the_screen(open_page: OpenPage) -> None:
    page = open_page(prepare=lambda page: page.add_init_script(FAKES))
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 110)
    expect(page.locator("[data-pressure]")).to_have_text("CPU very busy")
    assert page.evaluate("() => window.locks") == ["screen"]
    show(page, "models")
    expect(page.locator("[data-status]")).to_contain_text(re.compile(r"Training: step [\d,]+ of 2,000, loss \d\.\d+"))
    show(page, "train")
    stop(page)
    page.wait_for_function("() => window.locks.length === 0")
    expect(page.locator("[data-pressure]")).to_have_count(0)

    chart = page.locator("figure", has=page.locator(".u-over"))
    chart.locator("details").evaluate("details => { details.open = true; }")
    page.mouse.move(0, 0)
    for quantity in ("gradient norm", "loss"):  # as it is drawn from now on
        chart.get_by_label("What is drawn").select_option(quantity)
    pictures = {still(chart)}
    for quantity in ("gradient norm", "learning rate", "tokens per second", "loss"):
        chart.get_by_label("What is drawn").select_option(quantity)
        pictures.add(still(chart))
    check(chart.get_by_label("log loss"))
    pictures.add(still(chart))
    check(chart.get_by_label("log steps"))
    pictures.add(still(chart))
    assert len(pictures) == 6  # the first again at the end of the quantities

    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 50)
    expect(chart.locator(".under")).to_have_text(re.compile(r"step \d+: \d\.\d+"))
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 50, steps=4)
    page.mouse.up()
    whole = chart.get_by_role("button", name="Whole run")
    click(whole)
    expect(whole).to_have_count(0)
