"""Training on a task: exams in every place where a run is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import metrics, one_line_error, succeed, tinygpt

from tinygpt.cli.charts import loss_chart
from tinygpt.core.train.exam import ON_THE_WAY
from tinygpt.store.formats import load_tinygpt

TASK = "task:repeating:2"
SIZES = ["--preset", "tiny", "--ctx", 16, "--batch", 32, "--warmup", 20, "--threads", 1]
CALM = ["--budget", 60_000, "--eval-every", 50, "--sample-every", 0, "--set", "sample.tokens=12"]


def train(run: Path, *more: object, steps: int = 200) -> Any:
    return succeed("train", "--data", TASK, *SIZES, *CALM, "--steps", steps, "--out", run, *more)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A run that has learned to repeat two letters, and its events."""
    run = tmp_path_factory.mktemp("runs") / "repeats"
    result = train(run, "--json")
    return run, [json.loads(line) for line in result.stdout.splitlines()]


def test_a_trivial_task_is_learned_in_seconds(learned: tuple[Path, list[dict[str, Any]]]) -> None:
    run, events = learned
    exams = [event for event in events if event["event"] == "exam"]
    assert [event["step"] for event in exams] == [50, 100, 150, 200]
    assert exams[0]["accuracy"] < 0.5 and exams[-1]["accuracy"] > 0.9
    assert exams[-1]["right"] == round(exams[-1]["accuracy"] * exams[-1]["asked"])
    assert metrics(run, "exam") == exams
    question, answer, said = exams[-1]["answers"][0]
    assert answer == said == 2 * question[:-1]


def test_a_resumed_run_keeps_its_exams(learned: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    train(tmp_path / "run", "-q", "--eval-every", 100, steps=100)
    result = succeed("train", "--resume", tmp_path / "run", "--steps", 150, "--eval-every", 50)
    assert [event["step"] for event in metrics(tmp_path / "run", "exam")] == [100, 150]
    assert "unseen questions answered right" in result.stdout
    last = load_tinygpt(tmp_path / "run" / "checkpoints" / "last.tinygpt").progress
    assert last.accuracy == metrics(tmp_path / "run", "exam")[-1]["accuracy"]
    right = [event["right"] for event in metrics(tmp_path / "run", "exam")]
    assert last.best_right is not None and min(right) <= last.best_right <= ON_THE_WAY


def test_people_are_told_of_questions_and_answers(tmp_path: Path) -> None:
    shown = train(tmp_path / "run", steps=150).stdout
    assert "exam    64 questions that the text never asks" in shown
    assert "step    100  exam " in shown and "% of" not in shown
    assert "  right\n" in shown and "Ask it: tinygpt sample" in shown and "--prompt dx= --greedy" in shown


@pytest.mark.parametrize("model", ["folder", "file"])
def test_eval_reports_accuracy_and_a_model_knows_its_task(
    learned: tuple[Path, list[dict[str, Any]]], tmp_path: Path, model: str
) -> None:
    run, _ = learned
    copy = tmp_path / "model.tinygpt"
    copy.write_bytes((run / "checkpoints" / "best.tinygpt").read_bytes())
    source = run if model == "folder" else copy
    result = json.loads(succeed("eval", source, "--json").stdout)
    best = load_tinygpt(copy).progress
    assert result["accuracy"] == best.accuracy and result["text"] == TASK and result["split"] == "val"
    assert "answered right" in succeed("eval", source).stdout
    other = json.loads(succeed("eval", source, "--data", "task:repeating:2,seed=3", "--budget", 9000, "--json").stdout)
    assert other["accuracy"] > 0.9 and other["answers"][0] != result["answers"][0]
    assert "accuracy" not in json.loads(succeed("eval", source, "--split", "train", "--json").stdout)
    assert "does not fit into ctx 16" in one_line_error(tinygpt("eval", source, "--data", "task:copying"))


def test_a_line_beyond_the_context_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    error = one_line_error(tinygpt("train", "--data", "task:copying", *SIZES, "--out", tmp_path / "run"))
    assert "takes 22 bytes and does not fit into ctx 16: use a ctx of at least 22, or fewer gap" in error
    assert not (tmp_path / "run").exists()
    assert "did you mean 'parity'" in one_line_error(tinygpt("train", "--data", "task:party"))


def test_the_chart_has_a_scale_of_its_own_for_shares() -> None:
    falling = [(step, 5.0 - step / 100) for step in range(1, 301)]
    rows = loss_chart(falling, [], 60, 5, "cyan", "yellow", [(1, 0.0), (300, 1.0)], "green")
    assert rows[0].plain.endswith("⠉ 100%") and rows[4].plain.endswith("   0%")
    assert len(rows[0].plain) == len(rows[4].plain) == 60
    green = [{span.style for span in row.spans} for row in rows[:5]]
    assert all("green" in styles for styles in green)  # from the lower left to the upper right
