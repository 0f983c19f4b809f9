"""A training run on disk: a folder whose files stay readable whenever the process dies.

config.toml            every setting, the corpus with its sha256, and the engine; `train --config` takes it
metrics.jsonl          one JSON object per line: steps, validations, exams, tensors that were watched, another length
                       that the run was given, and how long each session took on what
samples.txt            what the model wrote on the way
checkpoints/last.tinygpt, checkpoints/best.tinygpt, and those that are kept, as checkpoints/step-000500.tinygpt;
                       of a run that trains adapters .safetensors files, of which only the last can be gone on from
watch.png, watch.npz   tensors that were watched: over the steps, and the values of the last one
loss.png               drawn when the run ends or is interrupted, or when one that was killed is resumed
before-resume-1        what was recorded after the checkpoint that a killed run was resumed from: those steps were done
                       again
.lock                  there while a process trains
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.atomic import make_folder, replacing, sync_folder
from tinygpt.disk.files import faults_of, open_regular, replace
from tinygpt.disk.locks import only_writer

if TYPE_CHECKING:
    from tinygpt.core.train.progress import Progress
    from tinygpt.store.formats import Checkpoint

RUNS = Path("runs")  # where runs go that are not told where
METRICS = {
    "step": ("loss", "lr", "tokens_per_s", "eta_s"),
    "eval": ("val_loss",),
    "session": ("from", "seconds"),
    "retime": ("steps", "before"),
    "exam": ("accuracy", "right", "asked"),
    "watch": ("norm", "mean", "std", "low", "high"),
}
LARGEST_NUMBER = 1e300
LOCK = ".lock"
ASIDE = "before-resume"
PARTIAL = ".*.partial"
KEPT_NAME = re.compile(r"step-(\d{6,})\.(tinygpt|safetensors)")
MODEL, ADAPTER = ".tinygpt", ".safetensors"  # what a checkpoint is, by its name's end
SAMPLE_HEADER = "──── step {step} ────"
SAMPLE_STEP = re.compile(rb"^" + re.escape(SAMPLE_HEADER).replace(r"\{step\}", r"(\d+)").encode() + rb"$", re.MULTILINE)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A full disk or a forbidden folder becomes one sentence that names the file."""
    try:
        yield
    except OSError as fault:
        raise TinyGPTError(f"cannot write {path}: {fault.strerror or fault}") from fault


class RunFolder:
    """The files of a run. What is open or locked is given back by `close`, or at the end of a `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.samples = path / "samples.txt"
        self.plot = path / "loss.png"
        self._metrics_file: IO[bytes] | None = None
        self._lock = ExitStack()

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new run, locked, in a folder that is not there yet or empty."""
        require_free(path)
        with writing(path):
            make_folder(path)
        folder = cls(path)
        folder.lock()
        try:
            require_free(path)  # another process may have come and gone
            with writing(path):
                make_folder(folder.checkpoints)
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        folder = cls(path)
        if not folder.config.is_file():
            raise TinyGPTError(f"{path} is no run folder: it has no config.toml")
        return folder

    def lock(self) -> None:
        """Keep other processes out, and clear away what one that was killed had begun to write."""
        self._lock.enter_context(only_writer(self.path / LOCK, self.path))
        for folder in (self.path, self.checkpoints):
            for partial in folder.glob(PARTIAL):
                with suppress(OSError):
                    partial.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def changed(self) -> float:
        """When something was last noted here, in seconds since 1970."""
        return max(file.stat().st_mtime for file in (self.config, self.metrics) if file.exists())

    def in_use(self) -> bool:
        """Whether a process trains here now."""
        try:
            with only_writer(self.path / LOCK, self.path):
                return False
        except TinyGPTError:
            return True

    def checkpoint(self, kind: str) -> Path:
        """Where the "last" or the "best" checkpoint is kept: a model, or of a run that trains them adapters."""
        adapter = self.checkpoints / f"{kind}{ADAPTER}"
        return adapter if adapter.exists() else adapter.with_suffix(MODEL)

    def kept(self, step: int) -> Path:
        """Where the checkpoint of a step is kept for good."""
        return self.checkpoint(f"step-{step:06}")

    def kept_steps(self) -> list[int]:
        found = [KEPT_NAME.fullmatch(path.name) for path in self.checkpoints.glob("step-*")]
        return sorted(int(match[1]) for match in found if match)

    def origin(self) -> str:
        """The model that the run began with, or whose adapters it trains, as its config.toml names it."""
        with faults_of(self.config, "read"):
            stated = tomllib.loads(self.config.read_text(encoding="utf-8")).get("origin", {}).get("model")
        if not isinstance(stated, str):
            raise TinyGPTError(f"{self.config} does not say which model it stands on: its [origin] is missing")
        return stated

    def never_saved(self) -> bool:
        """Whether the run was killed before its first checkpoint, so that it starts from its settings alone."""
        return not any(self.checkpoint(kind).exists() for kind in ("last", "best")) and not self.read_metrics()

    def write_config(self, text: str) -> None:
        with writing(self.config), replacing(self.config) as partial:
            partial.write_text(text, encoding="utf-8")

    def record(self, event: dict[str, Any]) -> None:
        """Keep an event: of steps, validations, exams, watched tensors and sessions as metrics, of samples as text."""
        if event["event"] in METRICS:
            with writing(self.metrics):
                if self._metrics_file is None:
                    self._metrics_file = self.metrics.open("ab", buffering=0)
                    sync_folder(self.path)
                # One write per line: a reader, or a run that is killed, sees whole lines.
                self._metrics_file.write(json.dumps(event).encode() + b"\n")
        elif event["event"] == "sample":
            with writing(self.samples), self.samples.open("ab") as file:
                file.write(f"{SAMPLE_HEADER.format(step=event['step'])}\n{event['text']}\n\n".encode())

    def save(self, kind: str, checkpoint: Checkpoint) -> None:
        """Replace the "last" or the "best" checkpoint, or add one that is "kept" for good.

        What it will be resumed with is on disk before it.
        """
        from tinygpt.store.formats import save_tinygpt
        from tinygpt.store.formats.adapter_file import Adapter, save_adapter

        with writing(self.metrics):
            if self._metrics_file is not None:
                os.fsync(self._metrics_file.fileno())
        target = self.kept(checkpoint.state.step) if kind == "kept" else self.checkpoint(kind)
        if checkpoint.config.lora is None:
            save_tinygpt(target, checkpoint)
        else:
            adapter = Adapter(self.path.resolve().name, (checkpoint.origin or {})["sha256"], checkpoint)
            save_adapter(target.with_suffix(ADAPTER), adapter, include_optimizer=kind == "last")

    def close(self) -> None:
        if self._metrics_file is not None:
            self._metrics_file.close()
            self._metrics_file = None
        self._lock.close()

    def read_metrics(self) -> list[dict[str, Any]]:
        """The events of metrics.jsonl. Lines that a killed process left unfinished are passed over."""
        return [event for _, event in self._lines() if event is not None]

    def best_so_far(self) -> Progress | None:
        """Where the run stood at its "best" checkpoint; None where there is none that can be read."""
        from tinygpt.store.formats import load_tinygpt
        from tinygpt.store.formats.adapter_file import load_adapter

        path = self.checkpoint("best")
        with suppress(TinyGPTError):
            return load_adapter(path).run.progress if path.suffix == ADAPTER else load_tinygpt(path).progress
        return None

    def set_aside_after(self, step: int) -> None:
        """Move the metrics, samples and kept checkpoints of steps after `step`, which the resumed run does again, to a
        folder where they stay."""
        lines: list[bytes] = []
        later: list[bytes] = []  # with lines that a killed process left unfinished
        for line, event in self._lines():
            (lines if event is not None and event["step"] <= step else later).append(line)
        text = self.samples.read_bytes() if self.samples.exists() else b""
        end = next((match.start() for match in SAMPLE_STEP.finditer(text) if int(match[1]) > step), len(text))
        kept = [self.kept(kept_step) for kept_step in self.kept_steps() if kept_step > step]
        if not later and end == len(text) and not kept:
            return
        aside = next(path for path in (self.path / f"{ASIDE}-{n}" for n in count(1)) if not path.exists())
        with writing(aside):
            make_folder(aside)
            move_part(self.metrics, aside, b"".join(lines), b"".join(later))
            move_part(self.samples, aside, text[:end], text[end:])
            for path in kept:
                replace(path, aside / path.name)
            sync_folder(aside)
            sync_folder(self.checkpoints)

    def _lines(self) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """The lines of metrics.jsonl, each with its event; None where it is not a whole one."""
        if not self.metrics.exists():
            return
        with faults_of(self.metrics, "read"), open_regular(self.metrics) as file:
            lines = file.readlines()
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            yield line, event if line.endswith(b"\n") and is_metric(event) else None


def move_part(path: Path, folder: Path, stays: bytes, goes: bytes) -> None:
    """Move what `goes` from a file to one of its name in a folder. Killed in between, it is in both."""
    for target, content in ((folder / path.name, goes), (path, stays)) if goes else ():
        with replacing(target) as partial:
            partial.write_bytes(content)


def is_metric(event: object) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("step"), int):
        return False
    kind = str(event.get("event"))
    numbers = METRICS.get(kind)
    return numbers is not None and all(is_number(event.get(name), kind == "watch") for name in numbers)


def is_number(value: object, any_float: bool) -> bool:
    """Only a watched tensor may hold NaN or infinities: a run whose loss does has ended."""
    return isinstance(value, (int, float)) and (any_float or -LARGEST_NUMBER < value < LARGEST_NUMBER)


def require_free(path: Path) -> None:
    """Refuse a folder that holds anything already: it is never written to.

    What a run leaves that was killed before it wrote its config.toml is nothing.
    """
    if (path / "config.toml").exists():
        raise TinyGPTError(
            f"{path} holds a run already: go on with it by `tinygpt train --resume {path}`, "
            f"or choose another folder with --out"
        )
    with writing(path):
        if path.exists() and not (path.is_dir() and all(map(is_remnant, path.iterdir()))):
            raise TinyGPTError(f"{path} exists and is not an empty folder: choose another one with --out")


def is_remnant(entry: Path) -> bool:
    if entry.name == "checkpoints" and entry.is_dir():
        return not any(entry.iterdir())
    return entry.name == LOCK or entry.match(PARTIAL)


def runs_in(root: Path) -> list[RunFolder]:
    """All runs below a folder, newest first; what cannot be read is none."""
    found: list[tuple[float, RunFolder]] = []
    for config in root.glob("**/config.toml") if root.is_dir() else ():
        run = RunFolder(config.parent)
        with suppress(OSError):
            found.append((run.changed(), run))
    return [run for _, run in sorted(found, key=lambda pair: pair[0], reverse=True)]


def newest_run(root: Path) -> RunFolder | None:
    """That has a model."""
    kinds = ("best", "last")
    return next((run for run in runs_in(root) if any(run.checkpoint(kind).exists() for kind in kinds)), None)


def create_numbered(root: Path, stem: str) -> RunFolder:
    """A new run in the first of root/stem-1, root/stem-2, ... that is not there."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "run"
    with writing(root):
        make_folder(root)
    for number in count(1):
        path = root / f"{stem}-{number}"
        with writing(path), suppress(FileExistsError):
            path.mkdir()
            sync_folder(root)
            return RunFolder.create(path)
    raise AssertionError("unreachable")
