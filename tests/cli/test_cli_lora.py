"""Adapters: trained in a run like any other, put on a model, merged into it. The model stays as it is."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import metrics, one_line_error, succeed, tinygpt

from tinygpt.core.config import LoraConfig
from tinygpt.jobs.settings import read_settings
from tinygpt.store.formats import load_tinygpt
from tinygpt.store.formats.adapter_file import load_adapter
from tinygpt.store.formats.checkpoint import vectors_of
from tinygpt.store.naming import load_model
from tinygpt.store.runs import RunFolder

STEPS = ["--steps", 40, "--eval-every", 10, "--rank", 2, "--lr", 0.01, "--threads", 1, "--sample-every", 0]


def arguments(model: Path, text: Path, run: Path, *more: object) -> list[object]:
    return ["lora", "train", model, "--file", text, "--out", run, *STEPS, *more]


@pytest.fixture(scope="module")
def adapted(straight_run: Path, text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("adapters") / "animals"
    before = (straight_run / "checkpoints/best.tinygpt").read_bytes()
    said = succeed(*arguments(straight_run, text_file, run)).stdout
    assert "rank 2, alpha 16, on" in said and f"--adapter {run}" in said
    assert (straight_run / "checkpoints/best.tinygpt").read_bytes() == before
    return run


def file_of(run: Path, kind: str = "best") -> Path:
    return run / f"checkpoints/{kind}.safetensors"


def test_an_adapter_is_small_and_says_what_it_is(adapted: Path) -> None:
    assert file_of(adapted).stat().st_size < 8_000
    shape = f"2, alpha 16, on {LoraConfig().targets}"
    for named in (adapted, file_of(adapted)):
        described = succeed("lora", "info", named).stdout
        for part in ("animals", "d_model 16", shape, "steps on animals.txt", "best val"):
            assert part in described, part


@pytest.mark.parametrize("step", [5, 25])  # before the first validation, and between two
def test_ctrl_c_saves_the_run_and_the_resumed_one_is_the_same(
    step: int, straight_run: Path, adapted: Path, text_file: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    record = RunFolder.record

    def record_and_signal(self: RunFolder, event: dict[str, Any]) -> None:
        record(self, event)
        if event["event"] == "step" and event["step"] == step:
            os.kill(os.getpid(), signal.SIGINT)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "record", record_and_signal)
        stopped = tinygpt(*arguments(straight_run, text_file, run))
    assert stopped.exit_code == 130 and load_adapter(file_of(run, "last")).run.state.step in range(step, 40)
    again = next(line for line in stopped.stdout.splitlines() if line.startswith("Resume with: tinygpt "))
    assert "resumed" in succeed(*again.removeprefix("Resume with: tinygpt ").split()).stdout
    for kind in ("best", "last"):
        x, y = (load_adapter(file_of(folder, kind)) for folder in (adapted, run))
        assert (x.lora, x.base_sha256, x.run.config) == (y.lora, y.base_sha256, y.run.config)
        assert x.run.progress.as_dict() == y.run.progress.as_dict() and x.run.state.step == y.run.state.step
        for v, w in zip(vectors_of(x.run.state), vectors_of(y.run.state), strict=True):
            np.testing.assert_array_equal(np.asarray(v), np.asarray(w))
    assert load_adapter(file_of(run, "last")).run.state.slots.keys() == {"m", "v"}
    assert [event["loss"] for event in metrics(run)] == [event["loss"] for event in metrics(adapted)]


def test_a_short_text_is_read_by_adapters_for_fewer_steps(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    run, short = tmp_path / "run", tmp_path / "short.txt"
    short.write_text(text_file.read_text()[:120])
    quiet = ["--file", short, "--out", run, "--threads", 1, "--sample-every", 0, "--eval-every", 0]
    said = succeed("lora", "train", straight_run, *quiet)
    assert "in more than 100 steps an adapter would only learn it by heart" in said.stderr + said.stdout
    assert read_settings(RunFolder.open(run).config).run.train.steps == 100


def test_what_a_resumed_run_cannot_change(straight_run: Path, adapted: Path, text_file: Path, tmp_path: Path) -> None:
    def fault(*flags: object, resume: Path = adapted) -> str:
        return one_line_error(tinygpt("lora", "train", "--resume", resume, "--steps", 50, *flags))

    other_text = tmp_path / "other.txt"
    other_text.write_bytes(text_file.read_bytes() + b"one more line\n")
    other_model = tmp_path / "other.tinygpt"
    succeed("lora", "merge", straight_run, adapted, other_model)
    assert "keeps its rank: 2 cannot become 4" in fault("--rank", 4)
    assert "keeps its val_fraction" in fault("--set", "val_fraction=0.5")
    assert "is not the text of that run" in fault("--file", other_text)
    assert "has other weights than the run began with" in one_line_error(
        tinygpt("lora", "train", other_model, "--resume", adapted, "--steps", 50)
    )
    assert "leave out --out" in fault("--out", tmp_path / "new")
    assert "trains a whole model" in fault(resume=straight_run)
    assert "it is finished" in succeed("lora", "train", "--resume", adapted).stdout
    assert "holds a run already" in one_line_error(tinygpt(*arguments(straight_run, text_file, adapted)))
    assert "which model?" in one_line_error(tinygpt("lora", "train", "--file", text_file))
    assert "leave d_model out" in one_line_error(tinygpt("lora", "train", straight_run, "--set", "d_model=8"))
    assert "did you mean 'q_proj'" in one_line_error(tinygpt("lora", "train", straight_run, "--targets", "q_pro"))


def test_json_lines_tell_of_adapters(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    run, few = tmp_path / "whale", ["--steps", 3, "--rank", 1, "--threads", 1, "--json"]
    result = succeed("lora", "train", straight_run, "--file", text_file, *few, "--out", run)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    start, end = events[0], events[-1]
    assert (start["event"], start["run"], start["lora"]["rank"]) == ("start", str(run), 1)
    assert start["parameters"] == load_adapter(file_of(run)).run.state.w.size
    assert (end["event"], end["reason"], end["step"], end["run"]) == ("end", "finished", 3, str(run))


def test_merged_is_what_the_adapter_does(adapted: Path, straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.tinygpt"
    succeed("lora", "merge", straight_run, file_of(adapted), merged)
    assert (load_tinygpt(merged).lora or {})["rank"] == 2
    assert "merged     with the adapter animals: rank 2, alpha 16, on" in succeed("inspect", merged).stdout
    assert "; losses are the base's" in succeed("inspect", merged).stdout
    assert "merged" not in succeed("inspect", straight_run).stdout
    succeed("convert", adapted, tmp_path / "told.tinygpt")  # with the story of the adapter's training
    assert load_tinygpt(tmp_path / "told.tinygpt").state.w.tobytes() == load_tinygpt(merged).state.w.tobytes()
    told = succeed("inspect", tmp_path / "told.tinygpt").stdout
    assert "merged      with the adapter animals" in told and "losses are the base's" not in told
    succeed("lora", "merge", straight_run, adapted, tmp_path / "merged.safetensors")
    assert load_model(tmp_path / "merged.safetensors").lora == load_tinygpt(merged).lora
    unnamed = tinygpt("lora", "merge", straight_run, adapted, tmp_path / "merged")
    assert "does not tell the format" in one_line_error(unnamed)
    same = [[straight_run, "--adapter", adapted], [adapted], [merged]]
    base, *losses = (
        json.loads(succeed("eval", *model, "--file", text_file, "--json").stdout)["loss"]
        for model in ([straight_run], *same)
    )
    assert len(set(losses)) == 1 and losses[0] < base
    raw = ["--raw", "--tokens", 20, "--threads", 1]
    assert len({succeed("sample", *model, *raw).stdout_bytes for model in same}) == 1
    again = tinygpt("lora", "merge", merged, adapted, tmp_path / "twice.tinygpt")
    assert "was trained on" in one_line_error(again)


def test_models_and_adapters_are_not_taken_for_each_other(adapted: Path, straight_run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "animals.safetensors"
    elsewhere.write_bytes(file_of(adapted).read_bytes())
    for command in ("sample", "inspect"):
        assert "this is an adapter" in one_line_error(tinygpt(command, elsewhere))
    assert "no adapter, but a model" in one_line_error(tinygpt("sample", straight_run, "--adapter", straight_run))


def test_compare_sets_two_models_side_by_side(adapted: Path, straight_run: Path, text_file: Path) -> None:
    quick = ["--tokens", 20, "--threads", 1]
    result = succeed("compare", straight_run, "--adapter", adapted, "--file", text_file, *quick)
    losses = [
        float(word) for word in result.stdout.replace(",", " ").split() if word.count(".") == 1 and word[0].isdigit()
    ]
    assert result.stdout.count("bits per byte") == 2 and losses[2] < losses[0]
    same = succeed("compare", straight_run, straight_run / "checkpoints/best.tinygpt", *quick)
    assert "straight" in same.stdout
    assert "what to compare with" in one_line_error(tinygpt("compare", straight_run))
