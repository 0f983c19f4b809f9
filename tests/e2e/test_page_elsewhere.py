"""Firefox and WebKit: they train on WebAssembly, save and load, and the page says what they lack."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_browsers import Tab, tab_of

from tinygpt.core.config import LN_VOCAB
from tinygpt.core.presets import DEFAULT_RECIPE, preset
from tinygpt.serve.server import Site
from tinygpt.store.formats import load_tinygpt

STEP = """() => Number(document.querySelector("[data-stat='step'] dd").innerText.replace(",", ""))"""
# What the page says where the expression is false.
SAID = {
    '"gpu" in navigator': "WebGPU: models train on the CPU.",
    '"PressureObserver" in window': "Compute Pressure: how hard the machine is pressed is not shown.",
    '"wakeLock" in navigator': "A wake lock: the machine may fall asleep while it trains.",
    'typeof SharedArrayBuffer !== "undefined"': "This browser shares no memory between threads, so training uses one",
    '"storage" in navigator && "getDirectory" in navigator.storage': "This browser gives the page no storage",
}


def wait_for_step(tab: Tab, least: int) -> None:
    tab.until(f"least => ({STEP})() >= Number(least)", str(least))


def stop(tab: Tab) -> int:
    tab.press("Stop")
    tab.until("() => document.querySelector('[data-phase=idle]') !== null")
    return int(tab.call(STEP))


@pytest.mark.parametrize("browser", ["firefox", "webkit"])
def test_it_trains_saves_loads_and_says_what_it_lacks(browser: str, dist: Path, tmp_path: Path) -> None:
    with tab_of(browser, tmp_path) as tab, Site(dist) as site:
        tab.open(f"{site.url}#train")
        tab.until("() => document.querySelector('[data-phase=idle] details.advanced') !== null")
        tab.call("() => { document.querySelector('details.advanced').open = true; }")
        tab.call("() => document.querySelector('input[name=preset][value=tiny]').click()")
        tab.press("Train")
        wait_for_step(tab, 20)
        at = stop(tab)
        assert "WebAssembly" in tab.text("[data-fact=engine]")
        said = tab.text("[data-phase]")
        for has, sentence in SAID.items():
            assert (sentence in said) == (not tab.call(f"() => {has}")), sentence
        tab.press("Save")
        file = tab.downloaded()
        saved = load_tinygpt(file)
        assert saved.config == preset("tiny", DEFAULT_RECIPE) and saved.state.step == at
        losses = [loss for _, loss in saved.progress.history.points]
        assert abs(losses[0] - LN_VOCAB) < 0.1 and min(losses) < LN_VOCAB - 0.5

        tab.choose("input[accept^='.tinygpt,']", file)
        tab.until("name => document.querySelector('[role=alert]').innerText.includes(`Loaded ${name}`)", file.name)
        assert tab.call(STEP) == at
        tab.press("Continue")
        wait_for_step(tab, at + 5)
        stop(tab)
        assert not tab.complaints
