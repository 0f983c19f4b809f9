"""The page beside its own engine: does a person in a browser get what the engine can do?

    python -m lab.page tiny small --engine wasm

For each preset, in one browser after the other: how long the first step takes to come, the tokens/s that the page shows
while it trains, how long it takes to stop at worst, and how long a text takes; then the same engine driven without a
page. Needs a built page (make site), Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any, NamedTuple

from rich.console import Console

from lab.stops import WATCH, worst_stops
from tinygpt.bench.speed import bench_preset
from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import DEFAULT_RECIPE, preset
from tinygpt.core.write.sampler import generate
from tinygpt.engines.runner import CHROMIUM_FLAGS, find_chromium, webgpu_flags
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.serve.server import Site
from tinygpt.site.build import build

LABELS = {"wasm": "WebAssembly", "webgpu": "WebGPU"}
SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9}
MANY = 1_000_000  # steps
REPEATS = 5  # of a text


# Presses Train; milliseconds until the page shows a step.
FIRST_STEP = """() => new Promise((done) => {
  const began = performance.now();
  const page = document.body;
  const step = () => document.querySelector("[data-stat='step'] dd")?.innerText ?? "";
  const seen = () => { if (/^[1-9]/.test(step())) done(performance.now() - began); };
  new MutationObserver(seen).observe(page, { subtree: true, childList: true, characterData: true });
  [...document.querySelectorAll("button")].find((button) => button.innerText === "Train").click();
})"""


class Seen(NamedTuple):
    first_ms: float  # from the click to the first step, kernels compiled and all
    tokens_per_s: float
    stop_ms: dict[str, float]  # from the click until the page rests, by what it came amid
    bytes_per_s: float  # of a text, from the click until it is there


def shown_number(text: str) -> float:
    text = text.replace(",", "").strip()
    return float(text[:-1]) * SUFFIXES[text[-1]] if text[-1:] in SUFFIXES else float(text)


def measure_page(page: Any, name: str, engine: str, seconds: float) -> Seen:
    """As a person would: choose, train for a while, stop, let it write."""
    page.locator("details.advanced").evaluate("details => { details.open = true; }")
    page.get_by_label(name, exact=True).check()
    page.get_by_label(LABELS[engine]).check()
    page.locator("input[name=steps]").fill(str(MANY))  # it must not end by itself
    page.set_default_timeout(600_000)
    first_ms = float(page.evaluate(FIRST_STEP))
    readings = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page.wait_for_timeout(250)
        readings.append(shown_number(page.locator("[data-stat='speed'] dd").first.inner_text()))
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector("[data-phase=idle]", timeout=600_000)
    stopped = worst_stops(page)
    page.evaluate("() => { location.hash = '#play'; }")
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        page.get_by_role("button", name="Write", exact=True).click()
        page.wait_for_selector("[data-pace=writing]")
        page.wait_for_selector("[data-pace=done]")
        times.append(time.perf_counter() - began)
    written = SampleConfig().tokens / statistics.median(times)
    return Seen(first_ms, statistics.median(readings[len(readings) // 2 :]), stopped, written)


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
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON per preset, as docs/figures/page.json has them"
    )
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    out = Console(width=130)
    if not asked.json:
        out.print(
            "preset     first step  page tok/s  engine tok/s  ratio  write: page    engine  "
            "stop: worst (steps, validation, sample)"
        )
    choice = EngineChoice(f"{asked.engine}-chromium")
    with Site(build()) as site, sync_playwright() as playwright:
        for name in asked.presets:
            flags = [flag for flag in CHROMIUM_FLAGS if not flag.startswith("--headless")]
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*flags, *webgpu_flags()])
            page = browser.new_page(reduced_motion="reduce")  # a text is there as soon as it is written
            page.add_init_script(WATCH)
            page.goto(f"{site.url}#train")
            page.wait_for_selector("[data-phase]:not([data-phase=loading])")
            seen = measure_page(page, name, asked.engine, asked.seconds)
            browser.close()
            config = preset(name, DEFAULT_RECIPE)  # which the page begins with
            (alone,) = bench_preset(name, config, [(choice.name, choice)], asked.seconds)
            row = {
                "preset": name,
                "first_ms": round(seen.first_ms),
                "page_tokens_per_s": round(seen.tokens_per_s),
                "engine_tokens_per_s": round(alone["tokens_per_s"]),
                "page_bytes_per_s": round(seen.bytes_per_s),
                "engine_bytes_per_s": round(engine_bytes_per_s(config, choice)),
                "stop_ms": {amid: round(ms) for amid, ms in seen.stop_ms.items()},
            }
            if asked.json:
                print(json.dumps(row), flush=True)
            else:
                out.print(line_of(row))


def line_of(row: dict[str, Any]) -> str:
    page, engine = row["page_tokens_per_s"], row["engine_tokens_per_s"]
    stops = list(row["stop_ms"].values())
    return (
        f"{row['preset']:10} {row['first_ms']:7,} ms {page:11,} {engine:13,} {page / engine:6.2f} "
        f"{row['page_bytes_per_s']:8,} B/s {row['engine_bytes_per_s']:5,} B/s  "
        f"{max(stops)} ms ({', '.join(map(str, stops))})"
    )


if __name__ == "__main__":
    main()
