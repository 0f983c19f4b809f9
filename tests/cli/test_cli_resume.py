"""A run that is stopped, by whatever, and gone on with equals one that was not."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import CALM, TINY, metrics, one_line_error, process, succeed, tinygpt

from tinygpt.store.formats import Checkpoint, load_tinygpt
from tinygpt.store.formats.checkpoint import vectors_of
from tinygpt.store.runs import SAMPLE_STEP, RunFolder

EXACT = [*TINY, *CALM, "--steps", 60]


def last(run: Path) -> Checkpoint:
    return load_tinygpt(run / "checkpoints/last.tinygpt")


def samples(run: Path) -> dict[int, bytes]:
    """What a run wrote, by step."""
    parts = SAMPLE_STEP.split((run / "samples.txt").read_bytes())
    return {int(step): text for step, text in zip(parts[1::2], parts[2::2], strict=True)}


def assert_same_run(one: Path, other: Path) -> None:
    """Loss by loss, weight by weight, sample by sample."""
    for kind, value in (("step", "loss"), ("step", "grad_norm"), ("eval", "val_loss")):
        assert [(event["step"], event[value]) for event in metrics(one, kind)] == [
            (event["step"], event[value]) for event in metrics(other, kind)
        ]
    texts, others = samples(one), samples(other)  # a slow machine leaves some out
    assert max(texts) == max(others) and all(texts[step] == others[step] for step in texts.keys() & others.keys())
    for name in ("last", "best"):
        a, b = (load_tinygpt(run / f"checkpoints/{name}.tinygpt") for run in (one, other))
        assert list(a.state.slots) == list(b.state.slots)
        for x, y in zip(vectors_of(a.state), vectors_of(b.state), strict=True):
            assert x is not None and y is not None
            np.testing.assert_array_equal(x.view(np.uint32), y.view(np.uint32))
        assert a.progress.as_dict() == b.progress.as_dict() and a.state.step == b.state.step


SIGNAL_AT_STEP = """
import os
from tinygpt.store.runs import RunFolder
record = RunFolder.record
def record_and_signal(self, event):
    record(self, event)
    if event["event"] == "step" and event["step"] == {step}:
        os.kill(os.getpid(), {signal})
RunFolder.record = record_and_signal
"""
KILL_AT_THIRD_SAVE = """
import os, signal
replace, saves = os.replace, []
def replace_or_die(source, target):
    saves.append(str(target).endswith("last.tinygpt"))
    if sum(saves) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = replace_or_die
"""


def train_arguments(text: Path, run: Path, *more: object) -> list[object]:
    return ["train", "--preset", "tiny", *EXACT, "--file", text, "--out", run, "--json", *more]


def test_ctrl_c_saves_and_the_resumed_run_is_the_same(text_file: Path, straight_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    interrupt = SIGNAL_AT_STEP.format(step=25, signal=int(signal.SIGINT))
    stopped = process(*train_arguments(text_file, run), before=interrupt)
    assert stopped.returncode == 130
    assert f"tinygpt train --resume {run}" in stopped.stderr.decode() and b"Traceback" not in stopped.stderr
    assert json.loads(stopped.stdout.splitlines()[-1])["reason"] == "stopped"
    assert 25 <= last(run).state.step < 60 and (run / "loss.png").exists()
    reached = last(run).state.step
    succeed("train", "--resume", run, "--quiet")
    assert_same_run(straight_run, run)
    assert [(row["from"], row["step"]) for row in metrics(run, "session")] == [(0, reached), (reached, 60)]


def test_kill_9_during_a_save_leaves_the_one_before(text_file: Path, straight_run: Path, tmp_path: Path) -> None:
    """Killed in the third save, at step 30: the second, of step 15, is whole."""
    run = tmp_path / "run"
    killed = process(*train_arguments(text_file, run, "--checkpoint-every", 15), before=KILL_AT_THIRD_SAVE)
    assert killed.returncode == -signal.SIGKILL
    assert last(run).state.step == 15 and len(metrics(run)) == 31  # a state is saved once the step behind it is sound
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "step", "st')  # and a line cut off
    succeed("train", "--resume", run, "--quiet")
    assert_same_run(straight_run, run)


def signal_at_step(monkeypatch: pytest.MonkeyPatch, step: int, *signals: signal.Signals) -> None:
    """Send this process signals once a step is on record."""
    record = RunFolder.record

    def record_and_signal(self: RunFolder, event: dict[str, Any]) -> None:
        record(self, event)
        if event["event"] == "step" and event["step"] == step:
            for number in signals:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(RunFolder, "record", record_and_signal)


def test_sigterm_is_as_ctrl_c(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal_at_step(monkeypatch, 5, signal.SIGTERM)
    result = tinygpt(*train_arguments(text_file, tmp_path / "run"))
    assert result.exit_code == 130 and "everything is saved" in result.stderr
    assert 5 <= last(tmp_path / "run").state.step < 60
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # given back


def test_a_closing_terminal_saves_however_often_it_hangs_up(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal_at_step(monkeypatch, 5, signal.SIGHUP, signal.SIGHUP)
    result = tinygpt(*train_arguments(text_file, tmp_path / "run"))
    assert result.exit_code == 130 and "everything is saved" in result.stderr
    assert 5 <= last(tmp_path / "run").state.step < 60


def test_nohup_is_respected(text_file: Path, tmp_path: Path) -> None:
    hang_up = SIGNAL_AT_STEP.format(step=5, signal=int(signal.SIGHUP))
    nohup = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"
    done = process(*train_arguments(text_file, tmp_path / "run", "--steps", 8), before=nohup + hang_up)
    assert done.returncode == 0 and last(tmp_path / "run").state.step == 8


def test_a_second_ctrl_c_quits_at_once(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal_at_step(monkeypatch, 5, signal.SIGINT, signal.SIGINT)
    result = tinygpt(*train_arguments(text_file, tmp_path / "run"))
    assert result.exit_code == 130 and "everything is saved" not in result.stderr
    assert last(tmp_path / "run").state.step == 0 and not (tmp_path / "run/loss.png").exists()


def test_more_steps_than_planned(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    """Thirty steps that were all, then sixty: the same but for the extra sample at the first end."""
    run = tmp_path / "run"
    succeed("train", "--preset", "tiny", *EXACT, "--steps", 30, "--file", text_file, "--out", run, "-q")
    finished = succeed("train", "--resume", run)
    assert "has done all of its 30 steps: it is finished" in finished.stdout
    fewer = succeed("train", "--resume", run, "--steps", 20)
    assert "has done 30 steps, more than the 20 asked for" in fewer.stdout and last(run).state.step == 30
    succeed("train", "--resume", run, "--steps", 60, "--quiet")
    assert metrics(run)[-1]["loss"] == metrics(straight_run)[-1]["loss"]
    np.testing.assert_array_equal(last(run).state.w, last(straight_run).state.w)
    assert re.findall(r"step (\d+) ─", (run / "samples.txt").read_text()) == ["0", "10", "20", "30", "40", "60"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--layers", 2], "a run that goes on keeps its layers: 1 cannot become 2"),
        (["--set", "val_fraction=0.5"], "keeps its val_fraction: 0.1 cannot become 0.5"),
        (["--seed", 3], "keeps its seed: 1337 cannot become 3"),
        (["--preset", "large"], "--preset does not go with --resume"),
        (["--out", "elsewhere"], "goes on in its own folder: leave out --out"),
    ],
)
def test_what_a_resumed_run_cannot_change(straight_run: Path, flags: list[object], sentence: str) -> None:
    assert sentence in one_line_error(tinygpt("train", "--resume", straight_run, *flags))


def test_another_text_is_refused(text_file: Path, tmp_path: Path) -> None:
    text = tmp_path / "copy.txt"
    text.write_bytes(text_file.read_bytes())
    flags = ["--preset", "tiny", *EXACT, "--steps", 2, "--file", text, "--out", tmp_path / "run", "-q"]
    succeed("train", *flags)
    text.write_bytes(text_file.read_bytes() + b"one more line\n")
    resume = ["train", "--resume", tmp_path / "run", "--steps", 4, "-q"]
    refused = one_line_error(tinygpt(*resume))
    assert "is not the text of that run" in refused and refused.endswith("or start a new run")
    config = ["train", "--config", tmp_path / "run/config.toml", "--out", tmp_path / "other"]
    assert "take its sha256 out of the config" in one_line_error(tinygpt(*config))
    assert "which to measure" in one_line_error(tinygpt("eval", tmp_path / "run"))
    succeed(*resume, "--file", text_file)  # where the old text is now


def test_a_run_that_stopped_early_says_so(text_file: Path, tmp_path: Path) -> None:
    impatient = ["--lr", 1e-12, "--eval-every", 1, "--patience", 2]
    flags = ["--preset", "tiny", *EXACT, *impatient, "--file", text_file, "--out", tmp_path / "run"]
    assert "Stopped early at step 3" in succeed("train", *flags).stdout
    assert "stopped early at step 3" in succeed("train", "--resume", tmp_path / "run").stdout
    succeed("train", "--resume", tmp_path / "run", "--patience", 0, "--steps", 5, "-q")
    assert last(tmp_path / "run").state.step == 5


def test_a_model_edited_in_config_toml_is_refused(text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed("train", "--preset", "tiny", *EXACT, "--steps", 2, "--file", text_file, "--out", run, "-q")
    config = run / "config.toml"
    config.write_text(config.read_text().replace("layers = 1", "layers = 2"))
    assert "undo the change to [model]" in one_line_error(tinygpt("train", "--resume", run, "--steps", 4))


def test_a_run_that_diverged_goes_on_from_the_step_it_names(tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed("train", *EXACT, "--steps", 9, "--out", run)
    sentence = one_line_error(tinygpt("train", "--resume", run, "--steps", 60, "--lr", 10, "--checkpoint-every", 1))
    kept = int(re.search(r"The model as of step (\d+) is kept", sentence)[1])  # type: ignore[index]
    assert last(run).state.step == last(run).progress.step == kept == 9
    succeed("train", "--resume", run, "--lr", 3e-4)
    assert last(run).state.step == 60 and metrics(run)[-1]["loss"] < 5.6
