"""How good the budget's predictions are: `tinygpt train --minutes` for several times and texts.

python -m lab.budget                              1, 3 and 10 minutes on two sizes of text
python -m lab.budget --minutes 1 3 --texts moby-dick -- --engine webgpu
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinygpt.data import load_corpus

TEXTS = ("shakespeare", "moby-dick:300000")
# planned, done: steps; retimed: the loss to expect of the steps that were done, where they are not those that were
# planned, as on a machine that has other work; off: of that one.
HEADER = (
    "minutes  text                chosen    planned      done  batch  predicted           range  retimed"
    "  reached    off  minutes taken"
)


def runs(minutes: list[float], texts: list[str], flags: list[str]) -> Iterator[str]:
    """A row per run. A text is a corpus by name, or with a colon so many bytes of it."""
    with tempfile.TemporaryDirectory() as folder:
        for text in texts:
            name, _, length = text.partition(":")
            file = Path(folder) / f"{name}.txt"
            file.write_bytes(load_corpus(name).text[: int(length) if length else None])
            for count in minutes:
                yield row(count, text, *run(count, ["--file", str(file), "--out", f"{folder}/{text}-{count}", *flags]))


def run(minutes: float, flags: list[str]) -> tuple[dict[str, dict[str, Any]], float]:
    """The last event of each kind, and the seconds that all of it took."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "tinygpt", "train", "--minutes", f"{minutes:g}", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return {event["event"]: event for event in events}, time.perf_counter() - began


def row(minutes: float, text: str, last: dict[str, dict[str, Any]], took: float) -> str:
    chosen, verdict, done = last["budget"]["chosen"], last["verdict"], last["end"]["step"]
    predicted = verdict["predicted"]
    between = f"{predicted['low']:.3f} to {predicted['high']:.3f}"
    retimed = f"{verdict['retimed']:.3f}" if "retimed" in verdict else ""
    return (
        f"{minutes:7g}  {text:18}  {chosen['preset']:7} {chosen['steps']:9,} {done:9,} {chosen['batch']:6} "
        f"{predicted['loss']:10.3f} {between:>15} {retimed:>8} {verdict['reached']:8.3f} {100 * verdict['off']:5.1f}% "
        f"{took / 60:14.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--texts", nargs="+", default=list(TEXTS), help="corpora by name, or NAME:BYTES of one")
    parser.add_argument("flags", nargs="*", help="more flags of `tinygpt train`, behind --")
    asked = parser.parse_args()
    print(HEADER)
    for line in runs(asked.minutes, asked.texts, asked.flags):
        print(line, flush=True)


if __name__ == "__main__":
    main()
