"""The process's own stdin, stdout and stderr, which may be closed, full, or go away."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import IO, Any


class Stream:
    """A text stream to print to, named in its faults. Once it is `outlived`, these are noted, not raised."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self.stream = stream
        self.name = name
        self.outlived = False
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        if self.fault is None:
            try:
                return self.stream.write(text)
            except OSError as fault:
                self.note(fault)
        return len(text)

    def flush(self) -> None:
        if self.fault is None:
            try:
                self.stream.flush()
            except OSError as fault:
                self.note(fault)

    def note(self, fault: OSError) -> None:
        fault.filename = self.name
        if not self.outlived:
            raise fault
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def prepare_streams() -> None:
    """A stream that was closed is as /dev/null, lest the next file opened take its number; no letter is refused."""
    names = ("stdin", "stdout", "stderr")
    for number, name in enumerate(names):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
