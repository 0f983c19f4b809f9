"""The page with WebGPU: the adapter is named for what it is, it trains, and a GPU that is lost takes no model along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, check, fact, press, save, stat, step, wait_for_step
from page_toy import TINY, engine_worker, go_on_with, untrained, wait_until_kept
from playwright.sync_api import expect

from tinygpt.store.formats import load_tinygpt

pytestmark = pytest.mark.xdist_group("page")

LONG = TINY.replace(steps=5000, eval_every=0, sample_every=0)
REMEMBER_DEVICES = """() => {
    globalThis.devices = [];
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...wanted) {
      devices.push(await request.apply(this, wanted));
      return devices.at(-1);
    };
}"""


def test_a_software_adapter_is_never_the_default_and_never_called_a_gpu(open_webgpu_page: OpenPage) -> None:
    page = open_webgpu_page()
    assert page.locator("input[name=engine]:checked").input_value() == "wasm"
    choice = page.locator("label", has=page.locator("input[name=engine][value=webgpu]"))
    expect(choice).to_contain_text("software adapter: ")
    expect(choice).to_contain_text(", not a GPU")
    assert "swiftshader" in choice.inner_text().lower()
    check(page.locator("input[name=engine][value=webgpu]"))
    assert fact(page, "engine").startswith("WebGPU, software adapter: ")


@pytest.mark.slow
def test_without_webgpu_it_cannot_be_chosen(open_page: OpenPage) -> None:
    page = open_page()
    assert page.locator("input[name=engine][value=webgpu]").is_disabled()
    assert page.locator("input[name=engine]:checked").input_value() == "wasm"
    expect(page.get_by_text("not in this browser, or no GPU it may use")).to_be_visible()


def test_it_diverges_trains_is_saved_is_lost_and_goes_on_on_webassembly(
    open_webgpu_page: OpenPage, tmp_path: Path
) -> None:
    page = open_webgpu_page()
    engine_worker(page).evaluate(REMEMBER_DEVICES)
    hot = untrained(tmp_path / "hot.tinygpt", LONG.replace(lr=10.0))
    go_on_with(page, hot, "webgpu")
    expect(page.get_by_role("status")).to_contain_text("Compiling WebGPU kernels: ")
    expect(page.get_by_role("alert")).to_contain_text("The model as of step 0 is kept")
    assert step(page) == 0
    assert np.array_equal(load_tinygpt(save(page, tmp_path)).state.w, load_tinygpt(hot).state.w)

    go_on_with(page, untrained(tmp_path / "untrained.tinygpt", LONG), "webgpu")
    page.wait_for_selector("[data-phase=training]")
    assert fact(page, "engine").startswith("WebGPU, software adapter: ")
    wait_for_step(page, 1)
    assert float(stat(page, "loss")) > 4
    page.wait_for_function("""() => Number(document.querySelector("[data-stat='loss'] dd").innerText) < 3""")
    checkpoint = load_tinygpt(save(page, tmp_path))
    assert checkpoint.backend == "webgpu" and checkpoint.state.step > 0 and checkpoint.config.model == TINY.model

    wait_until_kept(page)
    reached = step(page)
    engine_worker(page).evaluate("devices.at(-1).destroy()")
    expect(page.get_by_role("alert")).to_contain_text("The GPU was lost (")
    expect(page.get_by_role("alert")).to_contain_text("Your model is as it was at step ")
    assert 0 < step(page) <= reached + 50
    kept = step(page)
    press(page, "Continue on WebAssembly")
    wait_for_step(page, kept + 50)
    assert 0 < float(stat(page, "loss")) < 3
    assert fact(page, "engine").startswith("WebAssembly, ")
    expect(page.get_by_role("alert")).to_be_empty()
