"""Processes that are killed at any moment, or that meet in one folder: every run can go on, and stays whole."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_helpers import CALM, ENVIRONMENT, TINY, command, metrics, one_line_error, process, succeed, tinygpt

from tinygpt.core.errors import TinyGPTError
from tinygpt.store.formats import load_tinygpt
from tinygpt.store.runs import ASIDE, RunFolder, create_numbered

EXACT = [*TINY, *CALM, "--steps", 60]
KILL_AT_CALL = """
import os, signal, {module} as module
original = {owner}.{name}
def killing(*arguments, **more):
    {after}
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{name} = killing
"""
PAUSE_AT_STEP_5 = """
import time
from tinygpt.cli.screen import Screen
show = Screen.event
def pausing(self, event):
    show(self, event)
    if event["event"] == "step" and event["step"] >= 5:
        print("here", flush=True)
        time.sleep(60)
Screen.event = pausing
"""


def killed_at(module: str, owner: str, name: str, *arguments: object, after: str = "pass") -> None:
    before = KILL_AT_CALL.format(module=module, owner=owner, name=name, after=after)
    done = process(*arguments, before=before)
    assert done.returncode == -signal.SIGKILL, done.stderr


def train_arguments(text: Path, run: Path, *more: object) -> list[object]:
    return ["train", "--preset", "tiny", *EXACT, "--file", text, "--out", run, "--quiet", *more]


def files_in(run: Path) -> set[str]:
    """But for what was recorded before a resume, which does those steps again."""
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith(ASIDE)}


def assert_as_never_killed(run: Path, straight_run: Path) -> None:
    assert files_in(run) == files_in(straight_run)
    for name in ("last", "best"):
        a, b = (load_tinygpt(folder / f"checkpoints/{name}.tinygpt").state for folder in (run, straight_run))
        assert a.step == b.step and a.w.tobytes() == b.w.tobytes()
    assert [event["loss"] for event in metrics(run)] == [event["loss"] for event in metrics(straight_run)]


def test_killed_before_there_are_settings_a_folder_is_as_new(
    text_file: Path, straight_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    killed_at("tinygpt.store.runs", "module.RunFolder", "write_config", *train_arguments(text_file, run))
    assert files_in(run) == {".lock"} and (run / "checkpoints").is_dir()
    assert "no run folder" in one_line_error(tinygpt("train", "--resume", run))
    succeed(*train_arguments(text_file, run))
    assert_as_never_killed(run, straight_run)


@pytest.mark.parametrize("moment", ["before", "within"])
def test_killed_before_the_first_checkpoint_a_run_starts_from_its_settings(
    moment: str, text_file: Path, straight_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    if moment == "before":
        killed_at("tinygpt.store.formats", "module", "save_tinygpt", *train_arguments(text_file, run))
    else:
        others = 'if ".last." not in str(arguments[0]): return original(*arguments)'
        killed_at("tinygpt.disk.atomic", "module", "sync", *train_arguments(text_file, run), after=others)
        assert len(list((run / "checkpoints").glob(".last.tinygpt.*.partial"))) == 1
    assert not (run / "checkpoints/last.tinygpt").exists()
    assert f"--resume {run}" in one_line_error(tinygpt(*train_arguments(text_file, run)))
    succeed("train", "--resume", run, "--quiet")
    assert_as_never_killed(run, straight_run)


def test_killed_after_the_last_save_the_picture_is_made_good(
    text_file: Path, straight_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    killed_at("tinygpt.jobs.session", "module", "draw", *train_arguments(text_file, run))
    assert not (run / "loss.png").exists()
    assert "it is finished" in succeed("train", "--resume", run).stdout
    assert_as_never_killed(run, straight_run)


def test_a_lost_checkpoint_is_not_trained_over(text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed(*train_arguments(text_file, run, "--steps", 3))
    (run / "checkpoints/last.tinygpt").unlink()
    assert "last.tinygpt" in one_line_error(tinygpt("train", "--resume", run))
    assert len(metrics(run)) == 3


@contextmanager
def training(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is in the middle of its training, until it is killed here."""
    started = command(*arguments, before=PAUSE_AT_STEP_5)
    with subprocess.Popen(started, env=ENVIRONMENT, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        while running.stdout.readline() != b"here\n":
            assert running.poll() is None
        try:
            yield running
        finally:
            running.kill()


def test_a_second_process_is_kept_out_and_a_dead_one_keeps_nobody_out(
    text_file: Path, straight_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with training(*train_arguments(text_file, run)):
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        assert f"another process is training {run}" in one_line_error(tinygpt("train", "--resume", run))
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    succeed("train", "--resume", run, "--quiet")
    assert_as_never_killed(run, straight_run)


def test_two_new_runs_never_share_a_folder(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run"), pytest.raises(TinyGPTError, match="another process"):
        RunFolder.create(tmp_path / "run")
    with create_numbered(tmp_path, "a") as one, create_numbered(tmp_path, "a") as other:
        assert (one.path.name, other.path.name) == ("a-1", "a-2")
    assert os.listdir(tmp_path / "a-1") == ["checkpoints"]
