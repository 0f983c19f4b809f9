"""Runs that begin with a model that is there already, and what a run keeps for others to begin with."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from cli_helpers import CALM, TINY, metrics, one_line_error, succeed, tinygpt
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


@pytest.fixture
def other_text(tmp_path: Path) -> Path:
    path = tmp_path / "birds.txt"
    path.write_text("the wren sang in the reeds and the owl heard it.\n" * 9)
    return path


def test_a_validation_file_leaves_all_of_the_text_for_training(
    text_file: Path, other_text: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    flags = ["--file", text_file, "--val-file", other_text, "--steps", 10]
    events = [json.loads(line) for line in succeed("train", *SHORT, *flags, "--out", run, "--json").stdout.splitlines()]
    assert events[0]["validation"]["name"] == "birds.txt"
    written = tomllib.loads((run / "config.toml").read_text())
    assert written["train"]["val_fraction"] == 0.0
    assert written["validation"] == {"file": str(other_text), "sha256": events[0]["validation"]["sha256"]}
    assert load_model(run).data["validation"]["name"] == "birds.txt"
    measured = json.loads(succeed("eval", run, "--json", "--threads", 1).stdout)
    assert (measured["text"], measured["split"], measured["bytes"]) == ("birds.txt", "val", 441)
    assert json.loads(succeed("eval", run, "--split", "train", "--json").stdout)["bytes"] == len(text_file.read_bytes())
    assert "say --split all" in one_line_error(tinygpt("eval", run, "--data", "shakespeare"))
    told = succeed("train", "--config", run / "config.toml", "--steps", 2, "--out", tmp_path / "again").stdout
    assert f"{len(text_file.read_bytes()):,} train, 441 validation from birds.txt" in told


def test_a_run_keeps_what_it_is_validated_on(text_file: Path, other_text: Path, tmp_path: Path) -> None:
    runs = {"apart": ["--val-file", other_text], "part": []}
    for name, flags in runs.items():
        succeed("train", *SHORT, "--file", text_file, *flags, "--steps", 2, "--out", tmp_path / name, "-q")
    refused = tinygpt("train", "--resume", tmp_path / "part", "--steps", 4, "--val-file", other_text)
    assert "keeps what it is validated on, here 0.1 of its text" in one_line_error(refused)
    moved = tmp_path / "moved.txt"
    other_text.rename(moved)
    resume = ["train", "--resume", tmp_path / "apart", "--steps", 10]
    assert "birds.txt" in one_line_error(tinygpt(*resume))
    assert "say with --val-file where that text is now" in one_line_error(tinygpt(*resume, "--val-file", text_file))
    succeed(*resume, "--val-file", moved, "-q")
    assert len(metrics(tmp_path / "apart", "eval")) == 2
