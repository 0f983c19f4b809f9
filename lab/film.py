"""Records the film on the page's first screen: what a model writes at steps that are further and further apart.

python -m lab.film SECONDS [SEED]    trains small on Shakespeare and writes web/src/film/recorded.json

The run is stopped at each of these steps and resumed, which changes nothing in it. SECONDS is what the same run takes
in a tab on two cores (docs/figures/browser.json), a minute: all of its steps take the same time. Read the samples
before you commit them, and choose another SEED if one of them is not fit for a first screen.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinygpt
from tinygpt.core.presets import DEFAULT_CORPUS
from tinygpt.data import load_corpus

STOPS = [10, 20, 30, 40, 50, 60, 80, 100, 130, 160, 200, 250, 300, 360, 430, 500, 600, 700, 800, 950, 1080, 1200]
LENGTH = 420  # characters of a sample, at most
BIN = 10  # steps whose losses make a point of the curve
INTO = Path(__file__).parents[1] / "web" / "src" / "film" / "recorded.json"


class Run:
    """Hears a run's steps and stops it at one of them."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def until(self, stop: int) -> Callable[[dict[str, Any]], bool]:
        def heard(event: dict[str, Any]) -> bool:
            if event["event"] == "step":
                self.losses.append(event["loss"])
            return len(self.losses) < stop

        return heard


def shown(text: str) -> str:
    """Whatever is no letter of English becomes one mark, which the page draws as noise."""
    return "".join(letter if " " <= letter <= "~" or letter == "\n" else "\ufffd" for letter in text).strip()


def record(seconds: float, seed: int) -> dict[str, Any]:
    text = load_corpus(DEFAULT_CORPUS)
    heard = Run()
    frames: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        for stop in STOPS:
            told: dict[str, Any] = {"on_event": heard.until(stop), "progress": False}
            if frames:
                model = tinygpt.resume(run, text, **told)
            else:
                model = tinygpt.train(
                    text, preset="small", out=run, engine="native", steps=STOPS[-1], sample_every=BIN, **told
                )
            model.close()
            step = len(heard.losses)
            with tinygpt.load(run / "checkpoints" / "last.tinygpt") as written:
                sample = written.generate("\n", tokens=LENGTH, temperature=0.8, seed=seed)
                parameters = written.parameters
            frames.append({"step": step, "text": shown(sample)})
            print(f"step {step}\n{frames[-1]['text'][:200]}\n", flush=True)
    second = STOPS[-1] / seconds  # in steps
    for frame in frames:
        frame["seconds"] = round(frame["step"] / second, 2)
    curve = [(1, heard.losses[0])]
    curve += [(end, sum(heard.losses[end - BIN : end]) / BIN) for end in range(BIN, STOPS[-1] + 1, BIN)]
    points = [(step, round(step / second, 2), round(loss, 3)) for step, loss in curve]
    return {"title": "small", "parameters": parameters, "text": "Shakespeare", "frames": frames, "curve": points}


if __name__ == "__main__":
    film = record(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1337)
    INTO.parent.mkdir(exist_ok=True)
    INTO.write_text(json.dumps(film, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{INTO}: {INTO.stat().st_size:,} bytes")
