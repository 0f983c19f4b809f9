"""Streams that are closed, full, or go away: nothing trained is lost, and there is a sentence at most."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import CALM, ENVIRONMENT, TINY, command, process

from tinygpt.store.formats import load_tinygpt

LONG = ["--steps", 100_000, "--threads", 1]
needs_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")


def training(text: Path, folder: Path) -> tuple[list[object], Any]:
    """A command that would train for long, and how to read the step that it saved."""
    run = folder / "run"
    arguments = ["train", "--preset", "tiny", *TINY, *CALM, *LONG, "--file", text, "--out", run]
    return arguments, lambda: load_tinygpt(run / "checkpoints/last.tinygpt").state.step


@pytest.mark.parametrize("lines", [1, 8])
def test_a_reader_that_goes_away_ends_a_saved_run(lines: int, text_file: Path, tmp_path: Path) -> None:
    arguments, saved_step = training(text_file, tmp_path)
    with subprocess.Popen(
        command(*arguments), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        for _ in range(lines):
            running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read().decode()
    assert running.returncode == 1
    assert f"Stopped after step {saved_step():,} of 100,000; everything is saved." in said
    assert "Resume with: tinygpt" in said and "Traceback" not in said and "Exception" not in said


@needs_full_device
def test_a_full_stdout_ends_a_saved_run(text_file: Path, tmp_path: Path) -> None:
    arguments, saved_step = training(text_file, tmp_path)
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    said = done.stderr.decode().splitlines()
    assert done.returncode == 1 and saved_step() >= 0
    assert said[-1] == "error: stdout: No space left on device"
    assert any("everything is saved" in line for line in said) and not any("Traceback" in line for line in said)


def test_a_terminal_that_is_gone_ends_a_saved_run(text_file: Path, tmp_path: Path) -> None:
    """The panel's own thread draws to it, too."""
    arguments, saved_step = training(text_file, tmp_path)
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        command(*arguments), env=ENVIRONMENT, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    ) as running:
        os.close(terminal)
        shown = b""
        while b"tokens/s" not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        running.send_signal(signal.SIGHUP)
    assert running.returncode in (1, 130) and saved_step() >= 0


@needs_full_device
@pytest.mark.parametrize("arguments", [["presets"], ["presets", "--json"], ["train", "--help"]])
def test_a_full_stdout_is_one_sentence(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().removeprefix("error: stdout: ").removeprefix("error: ") == "No space left on device\n"


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_as_dev_null(closed: str, straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    number = ("stdin", "stdout", "stderr").index(closed)
    shut = "".join(f"{number}>&-") if number else "0<&-"
    train = ["train", "--preset", "tiny", *TINY, *CALM, "--steps", 2, "--file", text_file, "--out", tmp_path / "run"]
    for arguments in (train, ["sample", straight_run, "--prompt", "-", "--tokens", 3]):
        shell = ["sh", "-c", f'exec "$@" {shut}', "sh", *command(*arguments)]
        done = subprocess.run(shell, env=ENVIRONMENT, input=b"a", capture_output=True, timeout=600, check=False)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert load_tinygpt(tmp_path / "run/checkpoints/last.tinygpt").state.step == 2
