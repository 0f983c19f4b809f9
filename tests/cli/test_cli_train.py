"""A run's folder, its settings, and its failures."""

from __future__ import annotations

import errno
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import CALM, TINY, metrics, one_line_error, process, succeed, tinygpt

from tinygpt.cli.reports import opening_words
from tinygpt.core.presets import preset
from tinygpt.jobs.settings import read_settings
from tinygpt.store.formats import load_tinygpt


def arguments(text: Path, run: Path, *more: object, steps: int = 3) -> list[object]:
    return ["train", "--preset", "tiny", *TINY, *CALM, "--file", text, "--steps", steps, "--out", run, *more]


def train(text: Path, run: Path, *more: object, steps: int = 3) -> Any:
    return tinygpt(*arguments(text, run, *more, steps=steps))


def test_the_folder_is_complete(straight_run: Path, text_file: Path) -> None:
    inside = {str(path.relative_to(straight_run)) for path in straight_run.rglob("*") if path.is_file()}
    assert inside == {
        "config.toml",
        "metrics.jsonl",
        "samples.txt",
        "checkpoints/last.tinygpt",
        "checkpoints/best.tinygpt",
        "loss.png",
    }
    assert [event["step"] for event in metrics(straight_run)] == list(range(1, 61))
    assert [event["step"] for event in metrics(straight_run, "eval")] == [10, 20, 30, 40, 50, 60]
    assert metrics(straight_run)[0].keys() == {"event", "step", "loss", "grad_norm", "lr", "tokens_per_s", "eta_s"}
    (session,) = metrics(straight_run, "session")
    assert (session["from"], session["step"]) == (0, 60) and session["seconds"] > 0
    assert session["device"].startswith("native C++")
    sampled = re.findall(r"^──── step (\d+) ────$", (straight_run / "samples.txt").read_text(), re.M)
    assert sampled == ["0", "10", "20", "30", "40", "60"]  # the film's and those of --sample-every
    assert (straight_run / "loss.png").read_bytes().startswith(b"\x89PNG")
    last = load_tinygpt(straight_run / "checkpoints/last.tinygpt")
    assert last.state.step == 60 and last.backend == "native" and last.data["name"] == text_file.name


def test_config_toml_can_be_fed_again(straight_run: Path, tmp_path: Path) -> None:
    written = tomllib.loads((straight_run / "config.toml").read_text())
    assert written["data"].keys() == {"file", "sha256"} and written["engine"]["name"] == "native"
    succeed("train", "--config", straight_run / "config.toml", "--patience", 9, "--out", tmp_path / "again", "--quiet")
    losses = [
        [event["loss"] for event in metrics(run) if "loss" in event] for run in (tmp_path / "again", straight_run)
    ]
    assert losses[0] == losses[1]
    before, after = read_settings(straight_run / "config.toml"), read_settings(tmp_path / "again" / "config.toml")
    assert after.run == before.run.replace(patience=9) and after.data == before.data and after.sample == before.sample


def test_flags_override_the_file_and_the_file_overrides_the_preset(text_file: Path, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text(
        f'preset = "medium"\n[model]\nlayers = 1\nctx = 24\n[data]\nfile = "{text_file}"\n[train]\nlr = 0.01\n'
    )
    run = tmp_path / "run"
    flags = ["--ctx", 16, "--steps", 1, "--batch", 1, "--set", "beta2=0.99", "--set", "sample.tokens=5"]
    succeed("train", "--config", config, *flags, "--threads", 1, "--out", run, "-q")
    settings = read_settings(run / "config.toml")
    expected = preset("medium").replace(layers=1, ctx=16, steps=1, batch=1, lr=0.01, beta2=0.99)
    assert settings.run == expected and settings.sample.tokens == 5 and settings.preset == "medium"


def test_a_run_finds_the_file_that_a_config_names_from_anywhere(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text_file.parent)
    config = tmp_path / "my.toml"
    config.write_text(f'preset = "tiny"\n[data]\nfile = "{text_file.name}"\n')
    succeed("train", "--config", config, *TINY, "--steps", 1, "--out", tmp_path / "run", "-q")
    monkeypatch.chdir(tmp_path)
    succeed("train", "--resume", "run", "--steps", 2, "-q")


def test_options_of_the_model_by_flags_and_by_file(tmp_path: Path) -> None:
    config = tmp_path / "modern.toml"
    config.write_text('[model]\nnorm = "rmsnorm"\nbiases = "off"\n[train]\ndropout = 0.1\n')
    text = tmp_path / "text.txt"
    text.write_bytes(b"to be or not to be. " * 40)
    flags = ["--set", "positions=rotary", "--set", "qk_norm=on", "--set", "activation=swiglu", "--steps", 3]
    run = tmp_path / "run"
    succeed("train", "--config", config, "--file", text, "--out", run, *flags, *TINY, *CALM, "-q")
    options = "norm rmsnorm, positions rotary, activation swiglu, biases off, qk_norm on"
    assert f"ctx 16, {options};" in " ".join(succeed("inspect", run).stdout.split())
    succeed("train", "--resume", run, "--steps", 4, "-q")
    assert len(succeed("sample", run, "--tokens", 5, "--seed", 1).stdout) > 0


def test_a_preset_flag_beside_a_file_brings_what_it_states(tmp_path: Path) -> None:
    from tinygpt.cli.corpora import TextFlags
    from tinygpt.jobs.beginning import new_job

    config = tmp_path / "my.toml"
    config.write_text("[model]\nlayers = 1\n[train]\nlr = 0.01\n")
    changes: dict[str, dict[str, Any]] = {"model": {}, "train": {"steps": 7}, "sample": {}}
    settings = new_job(changes, TextFlags().on, config=config, preset="large").settings
    assert settings.run == preset("large").replace(lr=0.01, steps=7)


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[model\n", "is not valid TOML"),
        ("[model]\nlayer = 3\n", "did you mean 'layers'"),
        ("[modell]\nlayers = 3\n", "did you mean 'model'"),
        ('[train]\nlr = "fast"\n', "train.lr must be a number"),
        ("[train]\nsteps = 2.5\n", "must be a whole number"),
        ("[model]\nd_model = 96\nheads = 5\n", "not divisible by 5 heads"),
        ("[model]\nbiases = false\n", "model.biases must be one of on, off, not False"),
        ('[model]\npositions = "rotary"\nd_model = 9\n', "gives each of 3 heads 3"),
        ('preset = "smal"\n', "did you mean 'small'"),
        ("preset = 3\n", "preset must be text"),
        ("model = 3\n", "model must be a section"),
        ("[data]\nfiles = 'a'\n", "did you mean 'file'"),
        ("[engine]\nthreads = 'two'\n", "engine.threads must be a whole number"),
        ("[engine]\ncompile = 1\n", "engine.compile must be true or false"),
        ("[data]\nname = 'a'\nfile = 'b'\n", "both a name and a file"),
        ("[train]\nval_fraction = 0.2\n[validation]\nfile = 'b'\n", "val_fraction 0.2 would hold out a part"),
        ("\xff", "is not UTF-8"),
    ],
)
def test_a_bad_config_is_one_sentence(toml: str, sentence: str, tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_bytes(toml.encode("latin-1"))
    error = one_line_error(tinygpt("train", "--config", config))
    assert sentence in error and "bad.toml" in error


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--preset", "smal"], "did you mean 'small'"),
        (["--set", "bta2=1"], "did you mean 'beta2'"),
        (["--set", "beta2"], "--set takes name=value"),
        (["--set", "batch=many"], "batch must be a whole number"),
        (["--lr", "-1"], "train.lr must be from"),
        (["--lr", "0"], "train.lr must be from"),
        (["--set", "foo=1"], "there is no setting 'foo'; there are batch, steps,"),
        (["--set", "sample.temp=1"], "did you mean 'temperature'"),
        (["--set", "sample.prompt=\udcff"], "sample.prompt must be UTF-8 text"),
        (["--preset", ""], "there is no preset ''; there are tiny,"),
        (["--data", "nope"], "see `tinygpt data list`"),
        (["--engine", "troch"], "did you mean 'torch'"),
        (["--data", "shakespear"], "did you mean 'shakespeare'"),
        (["--data", "a", "--file", "b"], "either --data or --file"),
        (["--data", ""], "--data is empty"),
        (["--val-data", "a", "--val-file", "b"], "either --val-data or --val-file"),
        (["--val-file", "b", "--set", "val_fraction=0.2"], "b: leave one of the two out"),
        (["--config", "none.toml"], "cannot read none.toml"),
        (["--resume", "nowhere"], "nowhere: there is no such file"),
        (["--resume", "."], ". is no run folder"),
        (["--resume", "x", "--init-from", "y"], "--init-from does not go with --resume"),
        (["--init-from", "nowhere"], "nowhere: there is no such file"),
        (["--file", "no-such-text"], "no-such-text"),
    ],
)
def test_a_bad_flag_is_one_sentence(flags: list[str], sentence: str) -> None:
    assert sentence in one_line_error(tinygpt("train", *flags))


def test_the_prompt_of_samples_can_be_set(text_file: Path, tmp_path: Path) -> None:
    succeed(*arguments(text_file, tmp_path / "run", "--set", "sample.prompt=the old  ", "-q"))
    assert read_settings(tmp_path / "run/config.toml").prompt == "the old  "
    resume = ["train", "--resume", tmp_path / "run", "--steps", 4, "-q"]
    succeed(*resume, "--set", "prompt=the fox")
    assert read_settings(tmp_path / "run/config.toml").prompt == "the fox"


def test_a_text_in_utf16_is_warned_of(text_file: Path, tmp_path: Path) -> None:
    text = tmp_path / "windows.txt"
    text.write_text(text_file.read_text(), encoding="utf-16")
    assert "warning: The text is UTF-16" in train(text, tmp_path / "run", "-q").stderr
    assert "iconv -f UTF-16 -t UTF-8" in succeed("data", "show", "--file", text).stderr


def test_a_text_on_stdin_or_from_a_pipe_is_kept_for_a_resume(text_file: Path, tmp_path: Path) -> None:
    flags = ["train", "--preset", "tiny", *TINY, *CALM, "--steps", "2", "--quiet"]
    text = text_file.read_bytes()
    done = process(*flags, "--file", "-", "--out", tmp_path / "run", input=text)
    assert done.returncode == 0, done.stderr
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(text)
    given = process(*flags, "--file", f"/dev/fd/{reading}", "--out", tmp_path / "other", pass_fds=(reading,))
    os.close(reading)
    assert given.returncode == 0, given.stderr
    kept = [Path(read_settings(tmp_path / run / "config.toml").data.file) for run in ("run", "other")]
    assert [path.name.partition("-")[0] for path in kept] == ["stdin", "pipe"]
    assert all(path.read_bytes() == text for path in kept)
    succeed("train", "--resume", tmp_path / "run", "--steps", 3, "--quiet")


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        (b"\xef\xbb\xbf\n  CHAPTER 1. Loomings, and more\nCall me Ishmael.", "CHAPTER 1. Loomings,"),
        (b"Don't\nstop", "Don't"),
        ("吾輩は猫である。".encode() * 40, ("吾輩は猫である。" * 40)[:30]),
        (b"\xff\xfet\0o\0", ""),
        (b"  \n", ""),
    ],
)
def test_the_suggested_prompt_is_how_the_text_begins(text: bytes, opening: str) -> None:
    assert opening_words(text) == opening


def test_a_run_is_never_overwritten(straight_run: Path, text_file: Path, tmp_path: Path) -> None:
    before = (straight_run / "config.toml").read_bytes()
    assert f"--resume {straight_run}" in one_line_error(train(text_file, straight_run))
    assert (straight_run / "config.toml").read_bytes() == before
    (tmp_path / "mine.txt").write_text("precious")
    assert "not an empty folder" in one_line_error(train(text_file, tmp_path))


def test_runs_are_numbered(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        succeed("train", "--preset", "tiny", *TINY, "--file", text_file, "--steps", 1, "-q")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["tiny-animals-1", "tiny-animals-2"]


def test_json_lines_are_all_of_stdout(text_file: Path, tmp_path: Path) -> None:
    result = train(text_file, tmp_path / "run", "--json", steps=20)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events[:4]] == ["start", "checkpoint", "sample", "step"]
    assert events[-1]["event"] == "end" and events[-1]["reason"] == "finished" and events[-1]["step"] == 20
    losses = [event["loss"] for event in events if event["event"] == "step"]
    assert losses == [event["loss"] for event in metrics(tmp_path / "run")]
    assert events[-1]["train_loss"] == pytest.approx(sum(losses[-20:]) / 20)
    assert events[0]["config"]["model"]["d_model"] == 16 and events[0]["run"] == str(tmp_path / "run")


def test_people_are_told_what_matters(text_file: Path, tmp_path: Path) -> None:
    result = train(text_file, tmp_path / "run", steps=20)
    for part in ("parameters", "native C++", "animals.txt", "epochs", "train loss", "best val", "step     20  val"):
        assert part in result.stdout, part
    assert "(mean of the last 20 steps)" in result.stdout
    assert "(mean of the last 3 steps)" in train(text_file, tmp_path / "short", steps=3).stdout
    assert f"tinygpt sample {tmp_path / 'run'} --prompt 'the big cat'" in result.stdout


def test_advice_comes_as_warnings(text_file: Path, tmp_path: Path) -> None:
    flags = ["--preset", "tiny", "--file", text_file, "--steps", 1, "--threads", 1, "--out", tmp_path / "run"]
    result = succeed("train", *flags, "--d-model", 96, "-q")
    assert "warning: The corpus is far too small" in result.stderr and result.stdout == ""


def test_too_short_a_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("hi there")
    error = one_line_error(train(tmp_path / "short.txt", tmp_path / "run"))
    assert "one window takes ctx + 1 = 17" in error and not (tmp_path / "run").exists()


def test_a_diverging_run_keeps_its_last_good_checkpoint(text_file: Path, tmp_path: Path, drawn: None) -> None:
    run = tmp_path / "run"
    result = train(text_file, run, "--lr", 10, "--set", "grad_clip=0", "--checkpoint-every", 5, steps=200)
    assert "training stopped at step" in one_line_error(result)
    assert load_tinygpt(run / "checkpoints/last.tinygpt").state.step < 200
    assert (run / "loss.png").exists() and len(metrics(run)) > 0


def test_an_unwritable_folder_is_one_sentence(text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot write" in one_line_error(train(text_file, tmp_path / "file" / "run"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_forbidden_folder_is_one_sentence(text_file: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in one_line_error(train(text_file, tmp_path / "run"))


def test_a_full_disk_is_one_sentence(text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up at the checkpoint of step 10; the one of step 0 stays."""
    real = os.fsync

    def full(descriptor: int) -> None:
        if (tmp_path / "run" / "metrics.jsonl").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    error = one_line_error(train(text_file, tmp_path / "run", "--checkpoint-every", 10, steps=20))
    assert "No space left on device" in error and str(tmp_path / "run") in error
    assert load_tinygpt(tmp_path / "run/checkpoints/last.tinygpt").state.step == 0


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYGPT_DEBUG", "1")
    result = tinygpt("train", "--preset", "smal")
    assert result.exit_code == 1 and type(result.exception).__name__ == "TinyGPTError"


def test_metrics_go_to_programs_that_are_installed(text_file: Path, tmp_path: Path) -> None:
    """Theirs in name only: what is told to them is what metrics.jsonl has."""
    there, run = tmp_path / "packages", tmp_path / "run"
    there.mkdir()
    (there / "tensorboardX.py").write_text(FAKE_TENSORBOARD)
    (there / "wandb.py").write_text(FAKE_WANDB)
    flags = ["train", "--preset", "tiny", *TINY, *CALM, "--file", text_file, "--steps", 20, "--quiet"]
    logs = ["--log", "tensorboard", "--log", "wandb"]
    hidden = "import sys; sys.modules['torch.utils.tensorboard'] = None"
    missing = process(*flags, "--out", run, *logs, before=f"{hidden}; sys.modules['tensorboardX'] = None")
    assert missing.returncode == 1 and b"pip install tensorboardX" in missing.stderr and not run.exists()
    unknown = tinygpt(*flags, "--out", run, "--log", "tensorbord")
    assert "did you mean 'tensorboard'" in one_line_error(unknown) and not run.exists()

    done = process(*flags, "--out", run, *logs, before=f"{hidden}; sys.path.insert(0, {str(there)!r})")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in (run / "tensorboard" / "told").read_text().splitlines()]
    losses = [[event["step"], event["loss"]] for event in metrics(run)]
    assert [[step, value] for name, value, step in told if name == "loss/train"] == losses
    validations = [[event["step"], event["val_loss"]] for event in metrics(run, "eval")]
    assert [[step, value] for name, value, step in told if name == "loss/val"] == validations
    assert told[0][0] == "config" and told[-1][0] == "closed"
    assert [step for name, _, step in told if name == "sample"] == [0, 10, 20]
    logged = [json.loads(line) for line in (run / "told").read_text().splitlines()]
    seen = [(row["step"], row["loss/val"]) for row in logged if "loss/val" in row]
    assert seen == [(step, loss) for step, loss in validations]
    assert logged[0]["name"] == "run" and logged[0]["config"]["lr"] > 0 and logged[-1] == {"finished": True}


FAKE_TENSORBOARD = """
import json, os
class SummaryWriter:
    def __init__(self, folder):
        os.makedirs(folder)
        self.file = open(folder + "/told", "w")
    def add_scalar(self, name, value, step): self.file.write(json.dumps([name, value, step]) + "\\n")
    add_text = add_scalar
    def close(self):
        self.add_scalar("closed", 0, 0)
        self.file.close()
"""
FAKE_WANDB = """
import json
class Run:
    def __init__(self, folder): self.file = open(folder + "/told", "w")
    def tell(self, row): self.file.write(json.dumps(row) + "\\n")
    def log(self, row, step): self.tell({**row, "step": step})
    def finish(self):
        self.tell({"finished": True})
        self.file.close()
def init(project, name, dir, config):
    run = Run(dir)
    run.tell({"name": name, "config": config})
    return run
"""
