"""What a run's folder keeps of a process that is killed, and of a machine whose power fails."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tinygpt
from tinygpt.core.engine.contract import run_now
from tinygpt.core.train.progress import is_better
from tinygpt.jobs.session import CHECKPOINT_SECONDS, CHECKPOINT_SHARE, Audience, RunHost
from tinygpt.jobs.settings import read_settings
from tinygpt.store.formats import load_tinygpt, read_header
from tinygpt.store.runs import RunFolder, create_numbered

TEXT = "the fox sat on the log and the hen sat on the mat.\n" * 40
LEAST = {"layers": 1, "d_model": 8, "heads": 1, "ctx": 8, "batch": 1, "threads": 1, "eval_batches": 1}


class Call(NamedTuple):
    """`file` and `folder` are inodes: a file keeps its own when it is renamed."""

    what: str
    file: int
    folder: int
    thread: int
    name: str


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Call]]:
    """Records every fsync, rename and new folder."""
    made: list[Call] = []
    fsync, replace, mkdir = os.fsync, os.replace, os.mkdir

    def note(what: str, file: int, folder: int, name: object = "") -> None:
        made.append(Call(what, file, folder, threading.get_ident(), str(name)))

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        note("fsync", os.fstat(descriptor).st_ino, 0)

    def noted_replace(source: str, target: str) -> None:
        note("rename", os.stat(source).st_ino, os.stat(os.path.dirname(target) or ".").st_ino, target)
        replace(source, target)

    def noted_mkdir(path: str, mode: int = 0o777, **more: int) -> None:
        mkdir(path, mode, **more)
        note("mkdir", os.stat(path).st_ino, os.stat(os.path.dirname(os.path.abspath(path))).st_ino, path)

    for name, noted in (("fsync", noted_fsync), ("replace", noted_replace), ("mkdir", noted_mkdir)):
        monkeypatch.setattr(os, name, noted)
    yield made


def assert_synced(calls: list[Call], root: Path) -> set[str]:
    """Every file is synced before its rename, and every folder after a name in it has changed; the names."""
    names = set()
    for place, call in enumerate(calls):
        if call.what == "fsync" or not Path(call.name).resolve().is_relative_to(root):
            continue
        names.add(Path(call.name).name)
        synced = {earlier.file for earlier in calls[:place] if earlier.what == "fsync"}
        assert call.what != "rename" or call.file in synced, f"{call.name} is renamed before its content is on disk"
        later = [other for other in calls[place + 1 :] if other.thread == call.thread]
        upto = next((at for at, other in enumerate(later) if other.what == "rename"), len(later))
        assert call.folder in {other.file for other in later[:upto]}, f"the new name {call.name} is not on disk"
    return names


@pytest.mark.skipif(os.name == "nt", reason="Windows has no way to sync a folder")
def test_what_a_recovery_needs_is_on_disk(tmp_path: Path, calls: list[Call]) -> None:
    run = tmp_path / "new" / "run"
    settings = {
        **LEAST,
        "eval_every": 2,
        "checkpoint_every": 2,
        "keep_every": 3,
        "sample_every": 0,
        "schedule": "constant",
    }
    tinygpt.train(TEXT, steps=6, out=run, **settings)
    renamed = {"config.toml", "last.tinygpt", "best.tinygpt", "step-000003.tinygpt", "step-000006.tinygpt"}
    assert assert_synced(calls, tmp_path) >= renamed | {"new", "run", "checkpoints"}
    metrics, last = (run / "metrics.jsonl").stat().st_ino, (run / "checkpoints/last.tinygpt").stat().st_ino
    renames = [at for at, call in enumerate(calls) if (call.what, call.file) == ("rename", last)]
    assert ("fsync", metrics) in {call[:2] for call in calls[: renames[0]]}  # a checkpoint finds its metrics
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "step", "step": 7')  # a line cut off: the file is written again
    calls.clear()
    tinygpt.resume(run, TEXT, steps=8)
    assert assert_synced(calls, tmp_path) >= {"config.toml", "metrics.jsonl", "last.tinygpt"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no way to sync a folder")
def test_a_numbered_folder_is_on_disk(tmp_path: Path, calls: list[Call]) -> None:
    with create_numbered(tmp_path / "runs", "a") as folder:
        assert stat.S_ISDIR(folder.path.stat().st_mode)
    assert assert_synced(calls, tmp_path) == {"runs", "a-1", "checkpoints"}


RARE = {**LEAST, "lr": 0.03, "eval_every": 10, "checkpoint_every": 0, "sample_every": 0, "schedule": "constant"}


def killed_at(step: int) -> Callable[[dict[str, Any]], None]:
    """As by kill -9 once that step is on record: nothing more is saved."""

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["step"] == step:
            raise KeyboardInterrupt

    return kill


def recorded(metrics: Path, kind: str = "step") -> list[int]:
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == kind]


def test_a_run_is_saved_by_the_clock_and_that_changes_no_byte_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the run of `--minutes`, which asks for no checkpoint on the way."""
    files = []
    for tick in (1.0, 0.0):
        ticks = count(0.0, tick)
        monkeypatch.setattr(RunHost, "now", lambda host: next(ticks))  # noqa: B023
        saved: list[int] = []

        def note(event: dict[str, Any]) -> None:
            if event["event"] == "checkpoint" and event["kind"] == "last":
                saved.append(event["step"])  # noqa: B023

        run = tmp_path / str(tick)
        tinygpt.train(TEXT, steps=60, out=run, on_event=note, **RARE)
        assert (len(saved) > 3) == (tick > 0) and saved[0] == 0 and saved[-1] == 60
        for kind in ("best", "last"):
            path = run / f"checkpoints/{kind}.tinygpt"
            header = {**read_header(path), "savedAt": ""}
            files.append((header, path.read_bytes()[-header["stateByteLength"] :]))
    assert files[:2] == files[2:]


def test_a_checkpoint_that_takes_long_is_made_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tinygpt.train(TEXT, steps=2, out=tmp_path / "run", **RARE)
    folder = RunFolder(tmp_path / "run")
    clock = [1000.0]
    monkeypatch.setattr(RunHost, "now", lambda host: clock[0])
    host = RunHost(folder, read_settings(folder.config), Audience())
    saved = load_tinygpt(folder.checkpoint("last"))
    for took in (0.5, 30.0):

        def save(kind: str, checkpoint: object) -> None:
            clock[0] += took  # noqa: B023

        monkeypatch.setattr(folder, "save", save)
        run_now(host.save("last", saved.state, saved.progress))
        waits = max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * took)
        clock[0] += waits - 1
        assert not host.checkpoint_due(1, 0) and host.checkpoint_due(250, 250)
        clock[0] += 1
        assert host.checkpoint_due(1, 0)


def test_a_resume_never_makes_the_best_worse_and_keeps_all_metrics(tmp_path: Path) -> None:
    straight, run = tmp_path / "straight", tmp_path / "run"
    tinygpt.train(TEXT, steps=60, out=straight, **RARE)
    with pytest.raises(KeyboardInterrupt):
        tinygpt.train(TEXT, steps=60, out=run, on_event=killed_at(45), **RARE)
    best, last = (load_tinygpt(run / f"checkpoints/{kind}.tinygpt") for kind in ("best", "last"))
    assert (last.state.step, best.state.step) == (0, 40)
    with pytest.raises(KeyboardInterrupt):
        tinygpt.resume(run, TEXT, on_event=killed_at(25))
    assert load_tinygpt(run / "checkpoints/best.tinygpt").progress.as_dict() == best.progress.as_dict()
    assert recorded(run / "metrics.jsonl") == list(range(1, 26))
    assert recorded(run / "before-resume-1/metrics.jsonl") == list(range(1, 46))
    assert recorded(run / "before-resume-1/metrics.jsonl", "eval") == [10, 20, 30, 40]
    tinygpt.resume(run, TEXT)
    assert recorded(run / "before-resume-2/metrics.jsonl") == list(range(1, 26))
    assert recorded(run / "metrics.jsonl") == recorded(straight / "metrics.jsonl") == list(range(1, 61))
    for kind in ("best", "last"):
        one, other = (load_tinygpt(folder / f"checkpoints/{kind}.tinygpt") for folder in (run, straight))
        assert one.progress.as_dict() == other.progress.as_dict() and one.state.w.tobytes() == other.state.w.tobytes()


def test_a_damaged_best_checkpoint_is_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        tinygpt.train(TEXT, steps=60, out=run, on_event=killed_at(45), **RARE)
    (run / "checkpoints/best.tinygpt").write_bytes(b"damaged")
    tinygpt.resume(run, TEXT)
    assert load_tinygpt(run / "checkpoints/best.tinygpt").state.step == 60


@pytest.mark.parametrize(
    ("now", "before", "better"),
    [
        ((2.0, None), (None, None), True),
        ((2.0, None), (2.0, None), False),
        ((1.9, None), (2.0, None), True),
        ((2.5, 7), (2.0, 6), True),  # more right answers count for more than the loss
        ((1.5, 6), (2.0, 7), False),
        ((1.9, 7), (2.0, 7), True),
        ((2.0, 7), (2.0, 7), False),
    ],
)
def test_which_validation_is_the_better_one(
    now: tuple[float, int | None], before: tuple[float | None, int | None], better: bool
) -> None:
    assert is_better(*now, *before) == better


def test_samples_of_later_steps_are_set_aside(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with RunFolder.create(run) as folder:
        for step in (5, 10):
            folder.record({"event": "sample", "step": step, "text": f"as of step {step}"})
        folder.set_aside_after(5)
        folder.set_aside_after(5)
    assert (
        "as of step 10" not in (run / "samples.txt").read_text() and "as of step 5" in (run / "samples.txt").read_text()
    )
    assert "as of step 10" in (run / "before-resume-1/samples.txt").read_text()
    assert not (run / "before-resume-2").exists()
