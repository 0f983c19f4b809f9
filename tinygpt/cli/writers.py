"""Where the text goes that a model writes: to people, to a file byte for byte, to machines."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tinygpt.core.config import SampleConfig
from tinygpt.core.text import StreamDecoder, decode
from tinygpt.terminal import printable

RULE = "──── seed {seed} ────\n"


class Writer:
    """Is told of each text when it begins, and of its bytes as they come."""

    def __init__(self) -> None:
        self.began = self.first = self.last = 0.0
        self.made = b""

    def begin(self, prompt: bytes, settings: SampleConfig) -> None:
        self.began, self.first, self.made = time.perf_counter(), 0.0, b""

    def push(self, made: bytes) -> bool:
        """Whether more is wanted."""
        self.last = time.perf_counter()
        if not self.made:
            self.first = self.last
        self.made += made
        self.show(made)
        return True

    def show(self, made: bytes) -> None:
        """Bytes that follow those before."""

    def finish(self) -> None:
        """The text is whole."""

    def times(self) -> dict[str, float]:
        """Seconds until the first byte, which waits for the prompt to be read, and bytes per second behind it."""
        behind = self.last - self.first
        rate = (len(self.made) - 1) / behind if len(self.made) > 1 and behind > 0 else 0.0
        return {"first_byte_s": round(self.first - self.began, 6), "bytes_per_s": round(rate, 1)}


class RawWriter(Writer):
    """Only the new text, byte for byte."""

    def show(self, made: bytes) -> None:
        sys.stdout.buffer.write(made)
        sys.stdout.buffer.flush()


class TextWriter(Writer):
    """Prompt and text as they come, a whole character at a time. A terminal is spared control characters."""

    def __init__(self, several: bool = False) -> None:
        super().__init__()
        self.several = several
        self.stream = StreamDecoder()
        self.terminal = sys.stdout.isatty()

    def begin(self, prompt: bytes, settings: SampleConfig) -> None:
        super().begin(prompt, settings)
        self.stream = StreamDecoder()
        if self.several:
            self.write(RULE.format(seed=settings.seed))
        self.write(self.stream.push_all(prompt).lstrip("\n"))

    def show(self, made: bytes) -> None:
        self.write(self.stream.push_all(made))

    def write(self, piece: str) -> None:
        if piece:
            sys.stdout.write(printable(piece) if self.terminal else piece)
            sys.stdout.flush()

    def finish(self) -> None:
        self.write(self.stream.finish() + "\n" * (2 if self.several else 1))


class JsonWriter(Writer):
    """A line of JSON per text."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, Any] = {}

    def begin(self, prompt: bytes, settings: SampleConfig) -> None:
        super().begin(prompt, settings)
        self.facts = {"prompt": decode(prompt), **settings.as_dict()}

    def finish(self) -> None:
        told = {**self.facts, "text": decode(self.made), "bytes": len(self.made), **self.times()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
