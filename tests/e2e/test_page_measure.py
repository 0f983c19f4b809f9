"""The page measures its machine, does not call software a GPU, can be stopped, and leaves the model in hand alone."""

from __future__ import annotations

import re

import pytest
from page_helpers import OpenPage, check, press, show, step, stop, wait_for_step
from playwright.sync_api import Page, Worker, expect

pytestmark = pytest.mark.xdist_group("page-kept")


def engines(page: Page) -> list[Worker]:
    return [worker for worker in page.workers if "worker" in worker.url]


@pytest.mark.slow
def test_a_machine_is_measured_and_the_model_in_hand_stays(open_webgpu_page: OpenPage) -> None:
    page = open_webgpu_page()
    check(page.get_by_label("tiny", exact=True))
    check(page.get_by_label("WebAssembly"))
    press(page, "Train")
    wait_for_step(page, 5)
    at = stop(page)

    show(page, "measure")
    expect(page.get_by_label("Size")).to_have_value("large")
    press(page, "Measure")
    expect(page.get_by_role("status")).to_contain_text("Reading 1 of 2: WebAssembly, round 1")
    press(page, "Stop")
    expect(page.get_by_role("status")).to_be_empty()
    page.get_by_label("Size").select_option("tiny")
    press(page, "Measure")
    block = page.get_by_label("The result, to copy")
    expect(block).to_have_value(re.compile("notes: "))
    page.get_by_label("What machine is this?").fill("the one of the tests")
    told = dict(line.split(": ", 1) for line in block.input_value().splitlines())
    assert told["device"].startswith("the one of the tests; ") and told["preset"] == "tiny, classic"
    assert told["webgpu"] == told["ratio"] == "none" and "it is not a GPU" in told["notes"]
    assert re.match(r"[\d.]+ ms per step \([\d.]+, [\d.]+\), [\d,]+ tokens per second$", told["wasm-simd"])
    assert all(int(steps) >= 30 for steps in told["steps read"].split(", "))
    expect(page.get_by_role("img", name="This machine, WebAssembly, tiny")).to_be_visible()
    assert step(page) == at
    for _ in range(50):  # a worker that was ended goes in a moment
        if len(engines(page)) == 1:
            break
        page.wait_for_timeout(100)
    assert len(engines(page)) == 1
