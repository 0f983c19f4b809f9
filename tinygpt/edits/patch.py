"""Unified diffs: read, and applied to a text whose lines may have moved but not changed."""

from __future__ import annotations

import re
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError

HEAD = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


class Hunk(NamedTuple):
    start: int  # the line, from 1, at which `before` was
    before: list[str]
    after: list[str]


def parsed(text: str) -> tuple[str, dict[str, list[Hunk]]]:
    """What it says before its first file, and of each file its hunks."""
    about: list[str] = []
    files: dict[str, list[Hunk]] = {}
    hunks: list[Hunk] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("--- "):
            hunks = []
        elif line.startswith("+++ "):
            files[package_path(line[4:].split("\t")[0].strip())] = hunks = []
        elif hunks is None:
            about.append(line)
        elif head := HEAD.match(line):
            hunks.append(Hunk(int(head[1]), [], []))
        elif hunks and line[:1] in (" ", "-", "+", ""):
            if line[:1] != "+":
                hunks[-1].before.append(line[1:])
            if line[:1] != "-":
                hunks[-1].after.append(line[1:])
        elif not line.startswith(("\\", "diff ", "index ")):
            raise TinyGPTError(f"line {number} is no part of a unified diff: {line[:60]!r}")
    if not any(files.values()):
        raise TinyGPTError("it changes nothing; an edit is a unified diff, as `diff -u` or `git diff` makes it")
    return "\n".join(about).strip(), files


def package_path(path: str) -> str:
    """Of a file named as from the root of the repository, with or without git's a/ and b/."""
    return re.sub(r"^(?:[ab]/)?tinygpt/", "", path)


def patched(text: str, hunks: list[Hunk], file: str) -> str:
    lines = text.splitlines()
    for hunk in reversed(hunks):
        at = place_of(hunk, lines, file)
        lines[at : at + len(hunk.before)] = hunk.after
    return "\n".join(lines) + "\n"


def place_of(hunk: Hunk, lines: list[str], file: str) -> int:
    """Where the hunk's lines are: of several places the nearest to the stated one."""
    size, stated = len(hunk.before), hunk.start - 1
    places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == hunk.before]
    if not places:
        raise TinyGPTError(
            f"{file} has changed: what the edit replaces at line {hunk.start} is no longer there "
            f"({next((line.strip() for line in hunk.before if line.strip()), '')!r})"
        )
    return min(places, key=lambda at: abs(at - stated))
