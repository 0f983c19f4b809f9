"""`train --minutes`: what it prints, what it refuses, and that the run is what its config.toml says."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from cli_helpers import one_line_error, succeed, tinygpt

from tinygpt.core.advice.choose import FEWEST_STEPS, sizes
from tinygpt.jobs.settings import read_settings

SECONDS = 5


@pytest.fixture
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what this process computes takes time: not other processes, and not the compiler."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "book.txt"
    sentences = (f"On day {day} they saw {day * day % 97} ships and {day % 13} whales.\n" for day in range(4000))
    path.write_text("".join(sentences))
    return path


@pytest.mark.usefixtures("own_clock")
def test_a_budget_says_what_to_expect_and_what_came_of_it(book: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = succeed("train", "--minutes", SECONDS / 60, "--file", book, "--out", run, "--json", "--threads", 1)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    (budget,) = [event for event in events if event["event"] == "budget"]
    assert events[0] == budget and budget["minutes"] == pytest.approx(SECONDS / 60)
    assert budget["options"][0]["preset"] == "small"
    chosen = budget["chosen"]
    assert chosen["preset"] in sizes() and chosen["steps"] >= FEWEST_STEPS
    assert chosen["predicted"]["low"] < chosen["predicted"]["loss"] < chosen["predicted"]["high"]

    evals = [event for event in events if event["event"] == "eval"]
    verdict, end = events[-2:]
    assert end["event"] == "end" and end["reason"] == "finished"
    assert (
        verdict["reached"] == min(event["val_loss"] for event in evals) and verdict["predicted"] == chosen["predicted"]
    )
    retimed = [event for event in events if event["event"] == "retime"]
    assert ("retimed" in verdict) == bool(retimed)
    expected = verdict.get("retimed", chosen["predicted"]["loss"])
    assert verdict["off"] == pytest.approx(abs(expected / verdict["reached"] - 1))
    settings = read_settings(run / "config.toml")
    assert settings.preset == chosen["preset"] and settings.recipe == "modern"
    assert settings.run.train.steps == end["step"] == evals[-1]["step"]


@pytest.mark.slow  # it is about time, which a busy machine has none of
def test_a_run_of_some_minutes_takes_no_longer(book: Path, tmp_path: Path) -> None:
    seconds, began = 8, time.monotonic()
    succeed("train", "--minutes", seconds / 60, "--file", book, "--out", tmp_path / "run", "--quiet", "--threads", 1)
    assert time.monotonic() - began < 2 * seconds


@pytest.mark.usefixtures("own_clock")
def test_people_see_a_table_and_a_verdict(book: Path, tmp_path: Path) -> None:
    flags = ["--minutes", SECONDS / 60, "--preset", "tiny", "--batch", 8, "--seed", 7]
    shown = succeed("train", *flags, "--file", book, "--out", tmp_path / "run", "--threads", 1).stdout
    assert "ms per step" in shown and "▶ tiny" in shown and "validation loss of" in shown
    assert "predicted" in shown and "% off)" in shown
    train = read_settings(tmp_path / "run" / "config.toml").run.train
    assert (train.batch, train.seed) == (8, 7)


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--steps", 100], "steps does not go with minutes, which choose it"),
        (["--set", "lr=0.1"], "lr does not go with minutes"),
        (["--ctx", 32], "ctx does not go with minutes"),
        (["--resume", "somewhere"], "--resume does not go with minutes"),
        (["--config", "some.toml"], "--config does not go with minutes"),
        (["--recipe", "classic"], "the recipe modern alone"),
        (["--preset", "behemoth"], "it is not known what to expect of 'behemoth'"),
        (["--preset", "smal"], "did you mean 'small'?"),
        (["--minutes", 0], "must be above 0"),
        (["--minutes", "nan"], "must be above 0"),
        (["--minutes", 100000], "at most 1440"),
        (["--minutes", 0.03], "give it more minutes"),
        (["--val-fraction", 0], "held-out text"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_begun(
    flags: list[object], sentence: str, book: Path, tmp_path: Path
) -> None:
    result = tinygpt("train", "--minutes", 1, *flags, "--file", book, "--out", tmp_path / "run")
    assert sentence in one_line_error(result)
    assert not (tmp_path / "run").exists()


def test_what_a_task_will_come_to_is_not_known(tmp_path: Path) -> None:
    result = tinygpt("train", "--minutes", 1, "--data", "task:addition", "--out", tmp_path / "run")
    assert "of prose, not of a task" in one_line_error(result)
