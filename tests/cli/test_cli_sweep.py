"""`tinygpt sweep`: table, picture and files, going on after any end, and bad input."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import ENVIRONMENT, command, one_line_error, process, succeed, tinygpt

from tinygpt.store.formats import load_tinygpt

SIZES = {"layers": 1, "d_model": 16, "heads": 2, "ctx": 16, "batch": 4, "eval_every": 10, "eval_batches": 1}
SMALL = [part for name, value in SIZES.items() for part in (f"--{name.replace('_', '-')}", value)]
THREE = ["--preset", "tiny", *SMALL, "--threads", 1, "--steps", 30, "--over", "lr=1e-3,1e-2,3e-2"]
KILL_AT_RECORD = """
import os, signal
from tinygpt.sweeps.folder import SweepFolder
record = SweepFolder.record
def killing(self, result):
    record(self, result)
    if len(self.results.read_bytes().splitlines()) == {count}:
        with self.results.open("ab") as file:
            file.write(b'{{"rung": 0, "half a line')
        os.kill(os.getpid(), signal.{signal})
SweepFolder.record = killing
"""


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[str, float]:
    return {json.dumps([row["rung"], row["settings"]]): row["val_loss"] for row in results(folder)}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    folder = tmp_path_factory.mktemp("sweeps") / "straight"
    succeed("sweep", *THREE, "--file", text_file, "--out", folder, "--quiet")
    return folder


def test_a_sweep_is_a_folder_with_a_table_and_a_picture(text_file: Path, tmp_path: Path) -> None:
    over = ["--over", "lr=1e-3,3e-2", "--over", "seed=1,2", "--schedule", "cosine"]
    flags = [*THREE[:-2], *over, "--file", text_file, "--out", tmp_path / "s"]
    out = succeed("sweep", *flags).stdout
    assert "lr (2) × seed (2): 4 runs of 30 steps" in out
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if "best val" in line)
    assert lines[head].split() == [
        "lr",
        "best",
        "val",
        "±",
        "last",
        "val",
        "train",
        "steps",
        "tokens",
        "seconds",
        "tokens/s",
    ]
    best, other = lines[head + 1].split(), lines[head + 2].split()
    assert best[:2] == ["▶", "0.03"] and other[0] == "0.001" and float(best[2]) < float(other[1])
    rows = [row["best_val"] for row in results(tmp_path / "s") if row["settings"]["lr"] == 0.03]
    assert best[2] == f"{sum(rows) / 2:.4f}" and len(rows) == 2
    assert "Note: the best lr, 0.03, is the largest tried: try larger ones too." in out
    assert "--schedule cosine" in out and "--lr 0.03" in out
    assert (tmp_path / "s/sweep.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["results.jsonl", "sweep.png", "sweep.toml"]
    assert all(row["config"]["train"]["schedule"] == "cosine" for row in results(tmp_path / "s"))


def test_json_has_a_line_per_run_and_nothing_else(text_file: Path, tmp_path: Path) -> None:
    done = succeed("sweep", *THREE, "--file", text_file, "--out", tmp_path / "s", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", "run", "run", "run", "end"]
    assert [{**event, "event": "run"} for event in events[1:4]] == [
        {"event": "run", **row} for row in results(tmp_path / "s")
    ]
    best = min(events[1:4], key=lambda event: event["best_val"])
    assert events[-1]["best"] == best["settings"] and events[-1]["loss"] == best["best_val"]


def test_a_sweep_toml_makes_the_sweep_again(straight: Path, tmp_path: Path) -> None:
    succeed("sweep", "--config", straight / "sweep.toml", "--out", tmp_path / "s", "--quiet")
    assert losses(tmp_path / "s") == losses(straight)
    more = succeed(
        "sweep", "--config", straight / "sweep.toml", "--over", "lr=1e-3,2e-3", "--steps", 10, "--out", tmp_path / "t"
    )
    assert "lr (2): 2 runs of 10 steps" in more.stdout


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_sweep_that_was_killed_goes_on_where_it_stood(
    straight: Path, text_file: Path, tmp_path: Path, count: int
) -> None:
    folder = tmp_path / "s"
    before = KILL_AT_RECORD.format(count=count, signal="SIGKILL")
    done = process("sweep", *THREE, "--file", text_file, "--out", folder, "--quiet", before=before)
    assert done.returncode == -signal.SIGKILL, done.stderr
    kept = (folder / "results.jsonl").read_bytes().splitlines()[:count]
    out = succeed("sweep", "--resume", folder).stdout
    assert losses(folder) == losses(straight)
    assert (folder / "results.jsonl").read_bytes().splitlines()[:count] == kept
    assert f"done    {count} runs" in out and "▶" in out
    shown = succeed("sweep", "--resume", folder).stdout  # once more: nothing is left to do but to show it
    assert len(results(folder)) == 3 and "▶" in shown


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    straight: Path, text_file: Path, tmp_path: Path, jobs: int
) -> None:
    folder = tmp_path / "s"
    before = KILL_AT_RECORD.format(count=1, signal="SIGINT")
    done = process("sweep", *THREE, "--file", text_file, "--out", folder, "--jobs", jobs, before=before)
    assert done.returncode == 130, done.stderr
    assert f"Resume with: tinygpt sweep --resume {folder}" in done.stdout.decode()
    assert len(results_whole(folder)) == 1 and (folder / "sweep.png").exists()
    succeed("sweep", "--resume", folder, "--quiet")
    assert losses(folder) == losses(straight)


def results_whole(folder: Path) -> list[bytes]:
    return [line for line in (folder / "results.jsonl").read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_halving_and_processes_and_kept_runs(text_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    flags = [*THREE[:-1], "lr=1e-4,1e-3,1e-2,3e-2", "--halving", 2, "--jobs", 2, "--keep", "--file", text_file]
    flags[flags.index(30)] = 80
    out = succeed("sweep", *flags, "--out", folder).stdout
    assert "4 of a quarter, then 2 of a half, then 1 whole, of 80 steps" in out
    rows = results(folder)
    assert [row["steps"] for row in rows] == [20] * 4 + [40] * 2 + [80]
    kept = sorted(path.name for path in (folder / "runs").iterdir())
    assert len(kept) == 7
    whole = folder / "runs" / next(name for name in kept if name.startswith("80-steps"))
    last = load_tinygpt(whole / "checkpoints/last.tinygpt")
    assert last.state.step == 80 and last.progress.best_val == rows[-1]["best_val"]
    assert (whole / "loss.png").exists()
    assert succeed("train", "--resume", whole, "--steps", 90, "--quiet").exit_code == 0


@pytest.mark.parametrize(
    "flags, sentence",
    [
        ([], "a sweep needs something to vary, as in --over lr=1e-3,3e-3,1e-2"),
        (["--over", "lr"], "--over takes a setting and values, as in lr=1e-3,3e-3, not 'lr'"),
        (["--over", "lr=,"], "--over takes a setting and values"),
        (["--over", "lr=a,b"], "lr must be a number, not 'a'"),
        (["--over", "rate=1,2"], "there is no setting 'rate'"),
        (["--over", "temperature=1,2"], "temperature is about samples"),
        (["--over", "lr=0.1", "--over", "lr=0.2"], "lr is given twice"),
        (["--over", "lr=0.1,0.2", "--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--over", "lr=0.1,0.2", "--engine", "abacus"], "there is no engine 'abacus'"),
        (["--over", "lr=0.1,0.2", "--engine", "native", "--device", "cuda"], "the native engine runs on the CPU"),
        (["--over", "ctx=16,10000"], "the training part of the corpus has"),
        (["--over", "ctx=16,400"], "there would be no validation loss to compare"),
        (["--resume", "nowhere"], "nowhere is no folder of a sweep"),
        (["--resume", "x", "--over", "lr=0.1"], "--over does not go with --resume"),
        (["--resume", "x", "--engine", "torch"], "--engine does not go with --resume"),
        (["--resume", "x", "--d-model", "32"], "--d-model does not go with --resume"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_begins_nothing(
    flags: list[str], sentence: str, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = [] if "--resume" in flags else ["--file", text_file]
    assert sentence in one_line_error(tinygpt("sweep", *flags, *text))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("over = 3", "over must be a section, not 3"),
        ("[over]\nlr = 0.1", "over.lr must be a list of numbers or of texts"),
        ("[over]\nlr = [0.1, true]", "a run with lr True cannot be: train.lr must be a number"),
        ("rungs = 3", "there is nothing called 'rungs' in a sweep"),
        ("halving = 2.5\n[over]\nlr = [1]", "halving must be a whole number"),
        ("[over", "is not valid TOML"),
    ],
)
def test_a_bad_sweep_toml_is_one_sentence(content: str, sentence: str, tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "bad.toml").write_text(content)
    assert sentence in one_line_error(tinygpt("sweep", "--config", tmp_path / "bad.toml", "--file", text_file))


def test_a_terminal_sees_a_bar_with_the_best_so_far(text_file: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    import os

    ours, theirs = pty.openpty()
    flags = ["sweep", *THREE, "--file", text_file, "--out", tmp_path / "s"]
    running = subprocess.Popen(command(*flags), env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"}, stdout=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert running.wait() == 0
    text = shown.decode()
    assert "━" in text and "/3 runs" in text and "best" in text and "▶" in text
