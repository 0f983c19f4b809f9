"""`--edit`: the same command once more, by the package as the edit makes it."""

from __future__ import annotations

import os
import subprocess
import sys

from tinygpt.core.errors import TinyGPTError

FLAG = "--edit"


def asks_for_an_edit(words: list[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return any(word == FLAG or word.startswith(FLAG + "=") for word in before)


def taken_out(words: list[str]) -> tuple[str, list[str]]:
    """The edit that is named last, and the words without it."""
    rest, name, waiting = [], "", iter(words)
    for word in waiting:
        if word == FLAG:
            name = next(waiting, "")
        elif word.startswith(FLAG + "="):
            name = word.partition("=")[2]
        else:
            rest.append(word)
    return name, rest


def run_edited(words: list[str]) -> None:
    from tinygpt.cli.app import fail
    from tinygpt.core.edited import EDIT
    from tinygpt.edits import edited_package, read_edit

    name, rest = taken_out(words)
    try:
        if EDIT:
            raise TinyGPTError(f"these sources are those of the edit {EDIT} already")
        if not name:
            raise TinyGPTError(f"{FLAG} needs the name of an edit (tinygpt edits lists them), or the file of a patch")
        edit = read_edit(name)
        folder = edited_package(edit)
    except TinyGPTError as fault:
        fail(str(fault))
    if not edit.ready:
        sys.stderr.write(
            f"note: {name} changes {', '.join(edit.files)} of TinyGPT. It is code, and it runs here: "
            f"use only edits that you trust.\n"
        )
        sys.stderr.flush()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *old_paths()])}
    command = [sys.executable, "-P", "-m", "tinygpt", *rest]  # -P: not the package in the current folder
    if os.name == "posix":
        os.execve(sys.executable, command, environment)
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def old_paths() -> list[str]:
    kept = os.environ.get("PYTHONPATH")
    return [kept] if kept else []
