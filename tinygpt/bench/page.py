"""The page beside its own engine: does a person in a browser get what the engine can do?

    python -m tinygpt.bench.page tiny small --engine wasm

For each preset, in one browser after the other: the tokens/s that the page shows while it trains, how long it takes to
stop at worst, and how long a text takes; then the same engine driven without a page. Needs a built page (make site),
Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, NamedTuple

from rich.console import Console

from tinygpt.bench.speed import bench_preset
from tinygpt.bench.stops import WATCH, worst_stops
from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.presets import DEFAULT_RECIPE, preset
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.sampler import generate
from tinygpt.engines.runner import CHROMIUM_FLAGS, find_chromium, webgpu_flags
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.server import Site
from tinygpt.site import build

LABELS = {"wasm": "WebAssembly", "webgpu": "WebGPU"}
SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9}
MANY = 1_000_000  # steps
REPEATS = 5  # of a text


class Seen(NamedTuple):
    tokens_per_s: float
    stop_ms: dict[str, float]  # from the click until the page rests, by what it came amid
    bytes_per_s: float  # of a text, from the click until it is there


def shown_number(text: str) -> float:
    text = text.replace(",", "").strip()
    return float(text[:-1]) * SUFFIXES[text[-1]] if text[-1:] in SUFFIXES else float(text)


def measure_page(page: Any, name: str, engine: str, seconds: float) -> Seen:
    """As a person would: choose, train for a while, stop, let it write."""
    page.get_by_label(name, exact=True).check()
    page.get_by_label(LABELS[engine]).check()
    page.locator("input[name=steps]").fill(str(MANY))  # it must not end by itself
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("[data-phase=training]", timeout=600_000)
    page.wait_for_function(
        "() => !document.querySelector(\"[data-stat='speed'] dd\").innerText.startsWith('–')", timeout=600_000
    )
    readings = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page.wait_for_timeout(250)
        readings.append(shown_number(page.locator("[data-stat='speed'] dd").first.inner_text()))
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("[data-phase=idle]", timeout=600_000)
    stopped = worst_stops(page)
    times = []
    for _ in range(REPEATS):
        count = page.locator("article").count()
        began = time.perf_counter()
        page.get_by_role("button", name="Write", exact=True).click()
        page.wait_for_function("count => document.querySelectorAll('article').length > count", arg=count)
        times.append(time.perf_counter() - began)
    written = SampleConfig().tokens / statistics.median(times)
    return Seen(statistics.median(readings[len(readings) // 2 :]), stopped, written)


def engine_bytes_per_s(config: RunConfig, choice: EngineChoice) -> float:
    engine = make_engine(config, choice)
    settings, times = SampleConfig(), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run_now(generate(engine, config.model.ctx, b"\n", settings))
        times.append(time.perf_counter() - began)
    run_now(engine.close())
    return settings.tokens / statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["tiny", "small"])
    parser.add_argument("--engine", choices=sorted(LABELS), default="wasm")
    parser.add_argument("--seconds", type=float, default=8.0, help="of training in the page, and of the engine alone")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    out = Console(width=120)
    out.print(
        "preset       page tok/s  engine tok/s  ratio  write: page    engine  stop: worst (steps, validation, sample)"
    )
    choice = EngineChoice(f"{asked.engine}-chromium")
    with Site(build()) as site, sync_playwright() as playwright:
        for name in asked.presets:
            flags = [flag for flag in CHROMIUM_FLAGS if not flag.startswith("--headless")]
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*flags, *webgpu_flags()])
            page = browser.new_page()
            page.add_init_script(WATCH)
            page.goto(f"{site.url}#train")
            page.wait_for_selector("[data-phase]:not([data-phase=loading])")
            seen = measure_page(page, name, asked.engine, asked.seconds)
            browser.close()
            config = preset(name, DEFAULT_RECIPE)  # which the page begins with
            (alone,) = bench_preset(name, config, [(choice.name, choice)], asked.seconds)
            written = engine_bytes_per_s(config, choice)
            out.print(
                f"{name:10} {seen.tokens_per_s:12,.0f} {alone['tokens_per_s']:13,.0f} "
                f"{seen.tokens_per_s / alone['tokens_per_s']:6.2f} {seen.bytes_per_s:8,.0f} B/s {written:5,.0f} B/s  "
                f"{max(seen.stop_ms.values()):.0f} ms ({', '.join(f'{ms:.0f}' for ms in seen.stop_ms.values())})"
            )


if __name__ == "__main__":
    main()
