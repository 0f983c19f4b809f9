"""Runs that begin with a model that is there already, and what a run keeps for others to begin with."""

from __future__ import annotations

import json
from pathlib import Path

from cli_helpers import CALM, TINY, one_line_error, succeed, tinygpt
from test_cli_resume import KILL_AT_THIRD_SAVE, process

from tinygpt.models import load_model
from tinygpt.runs import RunFolder

SHORT = ["--preset", "tiny", *TINY, *CALM]


def test_every_nth_checkpoint_is_kept_and_can_be_named(text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed("train", *SHORT, "--file", text_file, "--steps", 30, "--keep-every", 10, "--out", run, "-q")
    assert RunFolder(run).kept_steps() == [10, 20, 30]
    assert [load_model(f"{run}@{step}").state.step for step in (10, 20, 30)] == [10, 20, 30]
    losses = [
        json.loads(succeed("eval", f"{run}@{step}", "--json", "--threads", 1).stdout)["loss"] for step in (10, 30)
    ]
    assert losses[0] > losses[1]
    assert succeed("sample", f"{run}@20", "--raw", "--tokens", 9).stdout_bytes
    assert "no checkpoint '40'; it has best, last, 10, 20, 30" in one_line_error(tinygpt("sample", f"{run}@40"))


def test_a_resumed_run_drops_what_was_kept_behind_its_step(text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    keeping = ["--keep-every", 15, "--checkpoint-every", 20, "--file", text_file, "--steps", 60]
    killed = process("train", *SHORT, *keeping, "--out", run, before=KILL_AT_THIRD_SAVE)  # as step 40 was to be saved
    assert killed.returncode == -9 and RunFolder(run).kept_steps() == [15, 30]
    succeed("train", "--resume", run, "--steps", 25, "-q")
    assert RunFolder(run).kept_steps() == [15]
