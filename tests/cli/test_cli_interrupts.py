"""Ctrl-C at any instant: a quiet end, soon."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_helpers import TINY

from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.store.formats import load_tinygpt

STARTED = "from tinygpt.cli import main; print('started', flush=True); main()"
LONGEST = 1.5  # seconds: by then every command is at work
SOON = 600  # seconds, on a busy machine


def interrupted(delay: float, *arguments: object) -> tuple[int, str]:
    """Status and stderr of a command that gets SIGINT so long after its start."""
    command = [sys.executable, "-c", STARTED, *[str(argument) for argument in arguments]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"started\n"
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=SOON)
        finally:
            child.kill()
    return child.returncode, errors.decode()


def delays(count: int) -> list[float]:
    draw = random.Random(count)
    return [LONGEST * (i + draw.random()) / count for i in range(count)]


@pytest.mark.parametrize("delay", delays(8))
def test_sample(straight_run: Path, delay: float) -> None:
    assert interrupted(delay, "sample", straight_run, "--tokens", 100_000_000) == (INTERRUPTED, "")


@pytest.mark.parametrize("delay", delays(3))
def test_bench(delay: float) -> None:
    assert interrupted(delay, "bench", "--engines", "native", "--presets", "tiny", "--seconds", 60) == (INTERRUPTED, "")


@pytest.mark.parametrize("delay", delays(4))
def test_train_saves_what_it_has(text_file: Path, tmp_path: Path, delay: float) -> None:
    run = tmp_path / "run"
    many = ["--steps", 10_000_000, "--file", text_file, "--out", run, "--quiet"]
    status, said = interrupted(delay, "train", "--preset", "tiny", *TINY, *many)
    assert status == INTERRUPTED and "Traceback" not in said
    if "everything is saved" in said:  # by then it had begun
        assert load_tinygpt(run / "checkpoints/last.tinygpt").state.step >= 0
