"""Where words go: people read stdout, unless `--json` has it; warnings and errors go to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import IO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tinygpt.cli.display import Display, JsonLines, LivePanel, PlainLines
from tinygpt.cli.streams import Stream
from tinygpt.terminal import one_line, printable


def process_rank() -> int:
    """Which of torchrun's processes this is: only number 0 shows and writes anything."""
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


class PlainConsole(Console):
    """Text is shown, never obeyed: no markup, no emoji codes, no control characters but the console's own."""

    def __init__(self, stream: Stream, quiet: bool) -> None:
        super().__init__(file=cast(IO[str], stream), highlight=False, markup=False, emoji=False, quiet=quiet)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class Output:
    def __init__(self, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.main = process_rank() == 0
        self.streams = Stream(sys.stdout, "stdout"), Stream(sys.stderr, "stderr")
        self.console = PlainConsole(self.streams[0], quiet=json or quiet or not self.main)
        self.stderr = PlainConsole(self.streams[1], quiet=not self.main)

    def say(self, text: str | Text = "") -> None:
        """A line for people, never wrapped: it may hold a path to copy."""
        self.console.print(text, soft_wrap=True)

    def facts(self, rows: list[tuple[str, str]], name_to_come: str = "") -> None:
        """Names beside values."""
        width = max(len(name) for name in (name_to_come, *[name for name, _ in rows])) + 2
        for name, value in rows:
            self.say(Text.assemble((name.ljust(width), "dim"), one_line(value)))

    def warn(self, text: str) -> None:
        self.stderr.print(Text.assemble(("warning: ", "bold yellow"), one_line(text)), soft_wrap=True)

    def aside(self, text: str) -> None:
        """For a person who looks on, and for no file: what stdout holds is the answer alone."""
        if self.stderr.is_terminal:
            self.stderr.print(Text(one_line(text), style="dim"), soft_wrap=True)

    def hint(self, text: str) -> None:
        """What to do next; it must reach a person even when stdout belongs to a machine."""
        unseen = self.console.quiet or self.lost
        (self.stderr if unseen else self.console).print(text, soft_wrap=True)

    def outlive(self) -> None:
        """From now on work goes on when nobody can be shown it any more; `require_stdout` tells in the end."""
        for stream in self.streams:
            stream.outlived = True

    @property
    def lost(self) -> bool:
        return self.streams[0].fault is not None

    def require_stdout(self) -> None:
        if self.streams[0].fault is not None:
            raise self.streams[0].fault

    def display(self, title: str) -> Display:
        if self.json and self.main:
            return JsonLines(self.console.file)
        if self.console.quiet:
            return Display()
        return LivePanel(self.console, title) if self.console.is_terminal else PlainLines(self.console)


def size_of(count: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} bytes" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
