"""How long the page takes to stop, from a click on Stop until it rests: amid steps, a validation, a sample.

The click is made inside the page, right behind the worker's word on a block of steps: then the next block has just
begun, or what is due behind those steps. A hand, and whatever drives the browser, would add their own time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# To be run before the page's own scripts: `heard` gets to see what workers say.
WATCH = """
  const Own = window.Worker;
  window.heard = null;
  window.Worker = class extends Own {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => window.heard?.(data));
    }
  };
"""
STOP = """(delay) => new Promise((resolve) => {
  const page = document.querySelector("[data-phase]");
  const stop = () => {
    const began = performance.now();
    const watcher = new MutationObserver(() => {
      if (page.dataset.phase !== "idle") return;
      watcher.disconnect();
      resolve(performance.now() - began);
    });
    watcher.observe(page, { attributes: true });
    document.querySelector(".act button").click();
  };
  window.heard = ({ event }) => {
    if (event?.event !== "steps") return;
    window.heard = null;
    setTimeout(stop, delay);
  };
})"""


class Stop(NamedTuple):
    amid: str
    settings: dict[str, int]  # that make it likely
    after: float  # seconds of training before it
    delay: int  # ms behind the steps that are waited for


ONLY_STEPS = {"eval_every": 0, "sample_every": 0}
STOPS = (
    Stop("steps", ONLY_STEPS, 1.0, 0),
    Stop("steps", ONLY_STEPS, 1.0, 30),
    Stop("validation", {"eval_every": 1, "sample_every": 0}, 0.0, 0),
    Stop("validation", {"eval_every": 1, "sample_every": 0}, 1.0, 10),
    Stop("sample", {"eval_every": 0, "sample_every": 1}, 0.0, 0),
    Stop("sample", {"eval_every": 0, "sample_every": 1}, 0.0, 30),
)


def train_and_stop(page: Any, stop: Stop) -> float:
    """Have the page, which rests, train so, and stop it there; in how many ms it rested again."""
    page.locator("details.advanced").evaluate("details => { details.open = true; }")
    for name, value in stop.settings.items():
        page.locator(f"input[name={name}]").fill(str(value))
    page.locator("[data-view=train] .act .primary").click()
    page.wait_for_selector("[data-phase=training]")
    page.wait_for_timeout(1000 * stop.after)
    return float(page.evaluate(STOP, stop.delay))


def worst_stops(page: Any) -> dict[str, float]:
    """The longest that a stop took, in ms, by what it came amid."""
    worst: dict[str, float] = {}
    for stop in STOPS:
        worst[stop.amid] = max(worst.get(stop.amid, 0.0), train_and_stop(page, stop))
    return worst
