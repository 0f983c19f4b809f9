"""From the click on *Train yours now* to the first text that the model wrote, in a browser of its own each time.

    python -m lab.click --repeats 5

Says when each thing was heard of, in milliseconds since the click: the sizes that were measured, the run's start, the
text of step 0, and the first text that replaces it. Needs a built page (make site), Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from lab.stops import WATCH
from tinygpt.engines.runner import CHROMIUM_FLAGS, find_chromium
from tinygpt.serve.server import Site
from tinygpt.site.build import build

# Presses the button; what was heard until two texts are on the screen, and when.
CLICK = """() => new Promise((done, fail) => {
  const heard = [];
  const began = performance.now();
  const since = () => Math.round(performance.now() - began);
  const seen = new Set();
  window.heard = ({ event }) => {
    if (event?.event === "option") heard.push([`${event.option.preset} measured`, since()]);
    if (event?.event === "started") heard.push(["started", since()]);
  };
  const look = () => {
    const fault = document.querySelector("[role=alert] .error");
    if (fault) fail(new Error(fault.innerText));
    const step = document.querySelector("[data-sample]")?.dataset.sample;
    if (step === undefined || seen.has(step)) return;
    seen.add(step);
    heard.push([`text of step ${step}`, since()]);
    if (seen.size < 2) return;
    watcher.disconnect();
    done(heard);
  };
  const watcher = new MutationObserver(look);
  watcher.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  [...document.querySelectorAll("button")].find((button) => button.innerText.startsWith("Train yours now")).click();
})"""


def clicked(page: Any, url: str) -> list[tuple[str, int]]:
    """As somebody does who has looked at the first screen: all that is fetched ahead is here."""
    page.add_init_script(WATCH)
    page.goto(f"{url}#home")
    page.wait_for_selector("[data-phase=idle]")
    page.wait_for_load_state("networkidle")
    return [(str(what), int(ms)) for what, ms in page.evaluate(CLICK)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="in one browser, which has seen a run before")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each click")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with Site(build()) as site, sync_playwright() as playwright:
        flags = [flag for flag in CHROMIUM_FLAGS if not flag.startswith("--headless")]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        context = browser.new_context()
        for _ in range(asked.repeats):
            if not asked.again:
                context = browser.new_context()
            page = context.new_page()
            page.set_default_timeout(600_000)
            heard = clicked(page, site.url)
            page.close(run_before_unload=False)
            line = ", ".join(f"{what} {ms:,} ms" for what, ms in heard)
            print(json.dumps(dict(heard)) if asked.json else line, flush=True)
        browser.close()


if __name__ == "__main__":
    main()
