"""Runs that begin with a model that is there already, and what a run keeps for others to begin with."""

from __future__ import annotations

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import CALM, TINY, metrics, one_line_error, succeed, tinygpt
from test_cli_resume import KILL_AT_THIRD_SAVE, last, process

from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import DEFAULT_RECIPE, fine_tuning, preset_like
from tinygpt.engines.auto import Here
from tinygpt.jobs.settings import read_settings
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import load_tinygpt, save_model, save_tinygpt
from tinygpt.store.formats.checkpoint import vectors_of, weights_sha256
from tinygpt.store.naming import load_model
from tinygpt.store.runs import RunFolder

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


def test_a_resumed_run_sets_aside_what_was_kept_after_its_step(text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    keeping = ["--keep-every", 15, "--checkpoint-every", 20, "--file", text_file, "--steps", 60]
    killed = process("train", *SHORT, *keeping, "--out", run, before=KILL_AT_THIRD_SAVE)  # as step 40 was to be saved
    assert killed.returncode == -9 and RunFolder(run).kept_steps() == [15, 30]
    succeed("train", "--resume", run, "--steps", 25, "-q")
    assert RunFolder(run).kept_steps() == [15]
    assert load_tinygpt(run / "before-resume-1/step-000030.tinygpt").state.step == 30


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


# Fine-tuning


FEW = [*CALM, "--threads", 1, "--steps", 3]


@pytest.mark.parametrize("kind", ["run", "run@last", "file", "weights", "safetensors", "huggingface", "name"])
def test_any_model_can_be_begun_with(
    kind: str, straight_run: Path, other_text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, title = straight_run, "straight@best"
    weights = load_model(straight_run).state.w
    if kind == "run@last":
        model, title = Path(f"{straight_run}@last"), "straight@last"
        weights = load_model(model).state.w
    elif kind == "name":
        model, title = Path("best"), "best"
        monkeypatch.setattr(zoo, "FOLDER", straight_run / "checkpoints")
    elif kind != "run":
        model = tmp_path / {"file": "m.tinygpt", "weights": "w.tinygpt", "safetensors": "m.safetensors"}.get(kind, "hf")
        title = model.name
        format = "huggingface" if kind == "huggingface" else None
        save_model(model, load_model(straight_run), format=format, include_optimizer=kind == "file")
    run = tmp_path / "run"
    told = succeed("train", "--init-from", model, "--file", other_text, *FEW, "--keep-every", 1, "--out", run).stdout
    assert f"origin  {title}, weights sha256 {weights_sha256(weights)[:16]}…" in told
    assert [event["step"] for event in metrics(run)] == [1, 2, 3]
    settings, header = read_settings(run / "config.toml"), last(run)
    assert header.origin == {"model": title, "sha256": weights_sha256(weights)} and header.state.step == 3
    assert settings.origin.sha256 == weights_sha256(weights)
    assert title in succeed("inspect", run).stdout
    first = load_model(f"{run}@1")
    lr = learning_rate(settings.run.train, 1)
    assert 0.9 * lr < np.abs(first.state.w - weights).max() < 1.2 * lr  # a fresh AdamW's first step, and decay
    succeed("train", "--config", run / "config.toml", "--steps", 1, "--out", tmp_path / "again", "-q")
    assert metrics(tmp_path / "again")[0]["loss"] == metrics(run)[0]["loss"]


def test_the_shape_is_the_models_and_the_training_that_of_its_size(straight_run: Path, other_text: Path) -> None:
    def fault(*flags: object) -> str:
        return one_line_error(tinygpt("train", "--init-from", straight_run, "--file", other_text, *flags))

    model = load_model(straight_run).config.model
    assert preset_like(model) == "tiny"
    settings = fine_tuning(model, DEFAULT_RECIPE)
    assert settings.model == model and settings.train.steps == 2000
    assert (settings.train.lr, settings.train.warmup, settings.train.schedule) == (2e-3, 100, "cosine")
    assert "straight@best has layers 1, not 2, and a run that begins with a model keeps" in fault("--layers", 2)
    assert "has layers 1, not 6" in fault("--preset", "large")
    assert "has norm layernorm, not rmsnorm" in fault("--set", "norm=rmsnorm")


def test_other_weights_than_a_config_states_are_refused(straight_run: Path, other_text: Path, tmp_path: Path) -> None:
    config, model = tmp_path / "my.toml", tmp_path / "m.tinygpt"
    shutil.copy(straight_run / "checkpoints/best.tinygpt", model)
    config.write_text(f'[origin]\nmodel = "{model}"\nsha256 = "{"00" * 32}"\n[train]\nlr = 0.01\n')
    train = ["train", "--config", config, "--file", other_text, *FEW]
    assert "m.tinygpt has other weights than the run began with" in one_line_error(tinygpt(*train))
    succeed(*train, "--init-from", model, "--out", tmp_path / "run", "-q")
    assert read_settings(tmp_path / "run/config.toml").run.train.lr == 0.01


def test_a_run_killed_before_its_first_checkpoint_begins_with_the_same_weights(
    straight_run: Path, other_text: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    succeed("train", "--init-from", straight_run, "--file", other_text, *FEW, "--out", run, "-q")
    before = [event["loss"] for event in metrics(run)]
    for file in (*run.glob("checkpoints/*"), run / "metrics.jsonl"):
        file.unlink()
    succeed("train", "--resume", run, "-q")
    assert [event["loss"] for event in metrics(run)] == before


# A run folder of a file


@pytest.fixture
def saved(straight_run: Path, text_file: Path, tmp_path: Path) -> Path:
    """As a page saves it: half way, and without a word on the text."""
    half = tmp_path / "half"
    succeed("train", *SHORT, "--file", text_file, "--steps", 30, "--out", half, "-q")
    path = tmp_path / "page.tinygpt"
    save_tinygpt(path, replace(last(half), data={}, backend="wasm"))
    return path


def test_a_file_becomes_a_run_that_equals_one_never_stopped(
    saved: Path, straight_run: Path, text_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    resume = ["train", "--resume", saved, "--threads", 1, "--steps", 60, "--set", "sample.tokens=12"]
    assert "page.tinygpt does not say which text it was trained on" in one_line_error(tinygpt(*resume))
    succeed(*resume, "--file", text_file, "--out", run, "-q")
    assert [event["step"] for event in metrics(run)] == list(range(31, 61))
    assert [event["loss"] for event in metrics(run)] == [event["loss"] for event in metrics(straight_run)[30:]]
    ours, theirs = last(run), last(straight_run)
    for x, y in zip(vectors_of(ours.state), vectors_of(theirs.state), strict=True):
        np.testing.assert_array_equal(x, y)
    assert ours.progress.as_dict() == theirs.progress.as_dict()
    assert read_settings(run / "config.toml").preset == "tiny"
    succeed("train", "--resume", run, "--steps", 62, "-q")


def test_a_file_of_which_nothing_is_left_to_do_makes_no_folder(saved: Path, text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = succeed("train", "--resume", saved, "--file", text_file, "--out", run)
    assert "it is finished" in done.stdout and not run.exists()


def test_what_a_file_says_of_its_text_must_hold(
    straight_run: Path, saved: Path, text_file: Path, other_text: Path, tmp_path: Path
) -> None:
    def fault(data: dict[str, object], *flags: object) -> str:
        save_tinygpt(saved, replace(load_tinygpt(saved), data=data))
        return one_line_error(tinygpt("train", "--resume", saved, "--steps", 40, *flags))

    sha256 = load_model(straight_run).data["sha256"]
    here = {"name": text_file.name, "sha256": sha256}
    assert "names its text 'animals.txt': say with --data or --file where that is" in fault(here)
    assert "is not the text of that run" in fault(here, "--file", other_text)
    assert "is not the text of that run" in fault({"name": "shakespeare", "sha256": sha256})
    apart = {**here, "validation": {"name": "birds.txt", "sha256": "ab" * 32}}
    assert "names its text 'birds.txt': say with --val-data or --val-file" in fault(apart, "--file", text_file)
    assert "is not the text of that run" in fault(apart, "--file", text_file, "--val-file", other_text)
    odd = {"name": 3, "sha256": [], "validation": "none"}
    assert "does not say which text" in fault(odd)
    assert "keeps its layers: 1 cannot become 2" in fault(here, "--file", text_file, "--layers", 2)


def test_a_file_without_optimizer_state_is_begun_with_instead(straight_run: Path, tmp_path: Path) -> None:
    for name in ("w.tinygpt", "w.safetensors"):
        save_model(tmp_path / name, load_model(straight_run), include_optimizer=False)
        resumed = tinygpt("train", "--resume", tmp_path / name, "--steps", 90)
        assert (
            "holds weights alone, and nothing of the optimizer to go on with: begin a run with them by --init-from"
            in (one_line_error(resumed))
        )


def test_a_kept_checkpoint_forks_its_run(straight_run: Path, tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    told = succeed("train", "--resume", f"{straight_run}@last", "--steps", 62, "--out", fork).stdout
    assert "resumed  from step 60" in told and "(mean of the last 2 steps)" in told
    assert [event["step"] for event in metrics(fork)] == [61, 62] and last(straight_run).state.step == 60
    assert read_settings(fork / "config.toml").data == read_settings(straight_run / "config.toml").data


# What `auto` took


def test_the_engine_that_auto_took_is_said_with_the_reason(
    straight_run: Path, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Here, "may_have_gpu", lambda self: False)
    monkeypatch.setattr(Here, "may_have_cuda", lambda self: False)
    run, shape = tmp_path / "run", [*SHORT[: SHORT.index("--threads")], *CALM]
    command = ["train", *shape, "--file", text_file, "--steps", 2]
    assert " (no GPU here)\n" in succeed(*command, "--out", run).stdout
    assert read_settings(run / "config.toml").engine.name == "native"
    start = json.loads(succeed(*command, "--out", tmp_path / "json", "--json").stdout.splitlines()[0])
    assert (start["engine"], start["why"]) == ("native", "no GPU here")
    assert "(no GPU here)" in succeed("eval", straight_run).stdout
    assert "(no GPU here)" not in succeed("eval", straight_run, "--engine", "native").stdout
    assert succeed("sample", straight_run, "--tokens", 3).stderr == ""  # no terminal looks on
    bench = succeed("bench", "--engines", "auto", "--presets", "tiny", "--batch", 1, "--seconds", 0.01).stdout
    assert "auto is native: no GPU here\n" in bench
