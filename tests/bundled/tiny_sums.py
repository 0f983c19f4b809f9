"""A tiny model to plan, train and pack."""

from __future__ import annotations

import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from lab.bundled.__main__ import app
from lab.bundled.table import Planned

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

SUMS = Planned(
    "tiny-sums",
    "Adds, or would",
    "tiny",
    "task:addition:1",
    {"layers": 1, "d_model": 16, "heads": 2, "ctx": 16, "batch": 4, "steps": 30, "eval_every": 10, "eval_batches": 1},
)


def zoo_command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
