"""Files that others named or wrote: read if they are plain and short enough, and every fault is one sentence."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from tinygpt.core.errors import TinyGPTError
from tinygpt.terminal import one_line

WAITS = (0.01, 0.05, 0.2, 0.5, 1.0)  # seconds
LONGEST_FAULT = 300  # characters; a fault may quote what a hostile file holds


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """`os.replace`. Windows refuses it while anyone has the target open, such as a virus scanner: it is tried again."""
    for wait in WAITS if sys.platform == "win32" else ():
        try:
            os.replace(source, target)
            return
        except PermissionError:
            time.sleep(wait)
    os.replace(source, target)


@contextmanager
def faults_of(path: str | os.PathLike[str], doing: str) -> Iterator[None]:
    """Put the file's name before every fault raised inside. `doing` is "read" or "write"."""
    try:
        yield
    except TinyGPTError as fault:
        raise TinyGPTError(f"{os.fspath(path)}: {shortened(str(fault))}") from None
    except RecursionError:  # from parsing, or from quoting what was just parsed
        raise TinyGPTError(f"{os.fspath(path)}: it is nested too deeply") from None
    except OSError as fault:
        raise TinyGPTError(f"{os.fspath(path)}: cannot {doing} it: {fault.strerror or fault}") from fault
    except MemoryError as fault:
        raise TinyGPTError(f"{os.fspath(path)}: there is not enough memory to {doing} it") from fault


def shortened(text: str) -> str:
    text = one_line(text[: LONGEST_FAULT + 1])
    return text if len(text) <= LONGEST_FAULT else text[: LONGEST_FAULT - 3] + "..."


def decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise TinyGPTError(f"{what} is not UTF-8 text") from None


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a plain file for reading; a pipe or a device would block or never end."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise TinyGPTError("there is no such file") from None
    except ValueError as fault:
        raise TinyGPTError(f"this is no file name ({fault})") from None
    if stat.S_ISDIR(mode):
        raise TinyGPTError("this is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise TinyGPTError("this is not a plain file")
    return Path(path).open("rb")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """All of a plain file that holds at most so many bytes."""
    with open_regular(path) as file:
        return read_limited(file, most)


def read_limited(stream: BinaryIO, most: int) -> bytes:
    content = stream.read(most + 1)
    if len(content) > most:
        raise TinyGPTError(f"it holds more than {most:,} bytes")
    return content
