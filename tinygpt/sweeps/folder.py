"""A sweep on disk: a folder from which it goes on whenever the process died.

sweep.toml       what is tried, on which text and engine
results.jsonl    one JSON object per line: a finished run
sweep.png        drawn when the sweep ends or is interrupted
runs/            the runs' own folders, where they are kept
.lock            there while a process is at work
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Self

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.files import faults_of, open_regular, replace
from tinygpt.disk.locks import only_writer
from tinygpt.store.runs import writing
from tinygpt.sweeps.results import Result

LOCK = ".lock"


class SweepFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = path / "sweep.toml"
        self.results = path / "results.jsonl"
        self.picture = path / "sweep.png"
        self.runs = path / "runs"
        self._held = ExitStack()

    @classmethod
    def create(cls, path: Path, plan: str) -> SweepFolder:
        """A new sweep, locked, in a folder that is not there yet or empty."""
        with writing(path):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise TinyGPTError(
                    f"{path} exists and is not an empty folder: go on with a sweep by `tinygpt sweep --resume {path}`, "
                    f"or choose another folder with --out"
                )
            path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.lock()
        partial = path / ".sweep.toml.partial"
        with writing(folder.plan):
            partial.write_text(plan, encoding="utf-8")
            replace(partial, folder.plan)
        return folder

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        folder = cls(path)
        if not folder.plan.is_file():
            raise TinyGPTError(f"{path} is no folder of a sweep: it has no sweep.toml")
        return folder

    def lock(self) -> None:
        self._held.enter_context(only_writer(self.path / LOCK, self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def record(self, result: Result) -> None:
        """One write per line: a reader, or a sweep that is killed, sees whole lines."""
        with writing(self.results), self.results.open("ab", buffering=0) as file:
            file.write(json.dumps(result.as_dict()).encode() + b"\n")
            os.fsync(file.fileno())

    def keep_only(self, results: list[Result]) -> None:
        """Forget all others, and lines that were left unfinished."""
        partial = self.results.with_name(".results.jsonl.partial")
        with writing(self.results):
            partial.write_bytes(b"".join(json.dumps(result.as_dict()).encode() + b"\n" for result in results))
            replace(partial, self.results)


def read_results(path: Path) -> list[Result]:
    """Of a results.jsonl, in the order in which the runs ended. Lines that are no results are passed over."""
    if not path.exists():
        return []
    with faults_of(path, "read"), open_regular(path) as file:
        lines = file.readlines()
    results = []
    for line in lines:
        try:
            values: Any = json.loads(line)
            results.append(Result.from_dict(values))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return results


def numbered(root: Path, stem: str) -> Path:
    """The first of root/stem-1, root/stem-2, ... that is not there."""
    return next(path for path in (root / f"{stem}-{number}" for number in count(1)) if not path.exists())
