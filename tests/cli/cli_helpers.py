"""`tinygpt` in this process or in one of its own, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tinygpt.cli.app import app

TINY = [
    "--recipe",
    "classic",
    "--layers",
    "1",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--ctx",
    "16",
    "--batch",
    "4",
    "--threads",
    "1",
]
CALM = ["--eval-every", "10", "--sample-every", "20", "--set", "eval_batches=1", "--set", "sample.tokens=12"]


def tinygpt(*arguments: object, input: bytes | None = None) -> Result:
    """Run a command in this process. stdout and stderr are kept apart."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def succeed(*arguments: object, input: bytes | None = None) -> Result:
    result = tinygpt(*arguments, input=input)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def one_line_error(result: Result) -> str:
    """The one sentence that a failed command leaves on stderr."""
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.exception)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1 and lines[0].startswith("error: "), result.stderr
    return lines[0]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


def command(*arguments: object, before: str = "") -> list[str]:
    program = f"{before}\nfrom tinygpt.cli import main\nmain()"
    return [sys.executable, "-c", program, *[str(argument) for argument in arguments]]


def process(*arguments: object, before: str = "", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, for what only a process can show; `before` is Python to run first."""
    ours = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 600, "check": False}
    return subprocess.run(command(*arguments, before=before), **{**ours, **options})


def metrics(run: Path, kind: str = "step") -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == kind]
