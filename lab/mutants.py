"""Records how each mutant trains and what it writes, beside the original: web/src/lab/mutants.json.

python -m lab.mutants            about five minutes, in NumPy
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.write.sampler import generate
from tinygpt.data import load_corpus
from tinygpt.edits import edited_package, mutant_names, read_edit
from tinygpt.engines.spec import spec_engine

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "web" / "src" / "lab" / "mutants.json"
STEPS = 120
BYTES = 200_000  # of the text
PROMPT = b"ROMEO:\n"


def config(steps: int = STEPS) -> RunConfig:
    """`tiny` without n-gram tables, which would hide most faults; small batches, for NumPy takes its time."""
    return preset("tiny", "modern").replace(steps=steps, ngrams="", warmup=12, batch=6)


def recorded(trained: int = STEPS) -> dict[str, object]:
    """By these sources: the losses of the first steps, and once all are done what it writes."""
    text = load_corpus("shakespeare").text[:BYTES]
    engine = spec_engine(config())
    run_now(engine.load_corpus(text, b""))
    losses: list[float] = []
    while len(losses) < trained:
        run_now(engine.train(min(10, trained - len(losses))))
        losses += [round(row.loss, 4) for row in run_now(engine.read_metrics())]
    if trained < STEPS:
        return {"losses": losses, "written": ""}
    settings = SampleConfig(tokens=140, temperature=0.7, seed=1)
    written = run_now(generate(engine, config().model.ctx, PROMPT, settings))
    return {"losses": losses, "written": written.decode("utf-8", "replace")}


def by(folder: Path, trained: int = STEPS) -> dict[str, object]:
    """By the sources in a folder."""
    command = [sys.executable, "-P", "-m", "lab.mutants", str(trained)]
    paths = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def record() -> None:
    runs = {"original": by(ROOT)}
    for name in mutant_names():
        runs[name] = by(edited_package(read_edit(name)))
        print(name, flush=True)
    RECORDED.write_text(json.dumps({"steps": STEPS, "runs": runs}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(recorded(int(sys.argv[1]))))
    else:
        record()
