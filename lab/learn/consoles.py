"""Console blocks of README and docs are run: what commands print is what the pages say.

```console                  all commands of a page run in one empty folder, in their order
```console needs=vulkan     only where there is what it needs; readers see that as a remark
$ tinygpt train             a command, which may go on in lines that end with a backslash; below it what it prints

… stands for anything. Numbers may be a little off (2 %), those of time and of the machine altogether.

python -m lab.learn.consoles docs/cli.md      runs a page's blocks, and shows where they differ
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.learn.chapters import MARK, ROOT

CONSOLE = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.M)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Of this machine, or of this moment: every number of such a line, or right before or after such a word.
MACHINES = re.compile(
    r"vectors|threads|adapter|llvmpipe|ziglang|PyTorch|cores|memory  |Python  |Node  |cache  |saved  "
)
MOMENTS = re.compile(r"\b\d+:\d\d(?::\d\d)?\b|[\d.,]+[kM]? ?(?:tokens/s|s\b|ms\b|GB\b|min\b|GFLOP)|\d{4}-\d\d-\d\dT\S+")
LEEWAY = 0.02
STOPPABLE = re.compile(r"^(step |TinyGPT is at)", re.M)  # from then on Ctrl-C is heard
NEEDS = ("vulkan", "gpu", "network", "account", "minutes", "Ctrl-C")


@dataclass
class Console:
    """A block: its commands, each with what is stated below it."""

    page: Path
    line: int
    needs: str
    commands: list[tuple[str, str]]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def consoles(page: Path) -> Iterator[Console]:
    text = page.read_text(encoding="utf-8")
    for match in CONSOLE.finditer(text):
        needs = match[1].strip().removeprefix("needs=")
        if needs and needs not in NEEDS:
            raise ValueError(f"{page}: a block needs {needs}, which is none of {', '.join(NEEDS)}")
        parts = COMMAND.split(match[2])
        commands = list(zip(parts[1::2], parts[2::2], strict=True))
        yield Console(page, text.count("\n", 0, match.start()) + 1, needs, commands)


def needs_of(page: Path) -> set[str]:
    return {block.needs for block in consoles(page)}


def run(page: Path, folder: Path, has: tuple[str, ...]) -> list[str]:
    """Every place where a page's commands do not print what it says. `has` is what there is of NEEDS."""
    wrong = []
    for block in consoles(page):
        if block.needs and block.needs not in has:
            continue
        for command, stated in block.commands:
            code, printed = execute(command, folder, interrupted=block.needs == "Ctrl-C")
            ends = code == 0 if not stated.strip() else "error: " in stated or "error: " not in printed
            if not ends or (stated.strip() and not agrees(stated, printed)):
                shown = page.relative_to(ROOT)
                wrong.append(
                    f"{shown}:{block.line}: {command}\nends with {code} and prints\n{printed}where it says\n{stated}"
                )
    return wrong


def execute(command: str, folder: Path, interrupted: bool) -> tuple[int, str]:
    """By a shell whose `tinygpt` is ours. Standard error is shown in terminals, too."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    there = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "130", "NO_COLOR": "1"}
    words = (
        ["exec tinygpt " + shlex.join(shlex.split(command)[1:])]
        if interrupted
        else [command.replace("make train", "tinygpt train")]
    )
    process = subprocess.Popen(
        ["bash", "-c", *words], cwd=folder, env=there, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    printed = ""
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if interrupted and STOPPABLE.search(line):
                process.send_signal(signal.SIGINT)
                interrupted = False
    return process.returncode, printed


def agrees(stated: str, printed: str) -> bool:
    """Line by line, where a line of … is any number of lines; how wide gaps are does not matter."""
    pattern, numbers = "", []
    for piece in re.split(f"({NUMBER.pattern}|{MARK})", re.sub(f" ?{MARK} ?", MARK, plain(stated))):
        if piece == MARK:
            pattern += ".*?"
        elif NUMBER.fullmatch(piece):
            pattern += f"({NUMBER.pattern})"
            numbers.append(value(piece))
        else:
            pattern += re.escape(piece)
    found = re.fullmatch(pattern, plain(printed), re.S)
    return found is not None and all(
        abs(value(seen) - number) <= LEEWAY * abs(number) for seen, number in zip(found.groups(), numbers, strict=True)
    )


def plain(text: str) -> str:
    """Without what differs from machine to machine, and from run to run."""
    lines = [
        NUMBER.sub("#", line) if MACHINES.search(line) else MOMENTS.sub("#", line) for line in text.strip().splitlines()
    ]
    return "\n".join(re.sub(r"[ \t─━]+", " ", line).rstrip() for line in lines if line.strip())


def value(number: str) -> float:
    return float(number.replace(",", ""))


if __name__ == "__main__":
    for named in sys.argv[1:]:
        with TemporaryDirectory() as place:
            for fault in run(Path(named).resolve(), Path(place), ("vulkan", "minutes", "Ctrl-C")):
                print(fault, end="\n\n")
