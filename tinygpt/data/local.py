"""The user's own text: a file, a gzipped file, or a folder of them."""

import gzip
import io
import os
import re
import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from tinygpt.core.errors import TinyGPTError
from tinygpt.data.columns import column_of, divided
from tinygpt.data.corpus import Corpus
from tinygpt.disk.files import open_regular

SIZE_LIMIT = 1 << 30
URL = re.compile(r"(https?|ftp):/")
BINARY_PROBE_BYTES = 8192


def load_path(path: Path, *, size_limit: int = SIZE_LIMIT) -> Corpus:
    """A file's bytes as they are (gunzipped where it ends in .gz), a column of a table, or a folder's text files
    joined by newlines."""
    path = Path(os.path.expanduser(path))  # which leaves an unknown user's as it is
    if URL.match(str(path)):
        raise TinyGPTError(f"{path} is a web address: download it first, as by curl -O, and give the file")
    file, column = divided(path)
    try:
        if column:
            text = column_of(file, read_bytes(file, size_limit), column)
            corpus = Corpus(path.name, text, f"the column {column} of the file {file.name}")
        else:
            corpus = load_folder(path, size_limit) if is_folder(path) else load_file(path, size_limit)
    except OSError as error:
        raise TinyGPTError(
            f"Cannot read {error.filename or path} ({error.strerror or error}): check that it is yours to read."
        ) from error
    if not corpus.text.strip():
        raise TinyGPTError(f"There is no text in {path}: give a file or a folder with some.")
    return corpus


def is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, ValueError) as error:  # the latter where a name holds a NUL
        raise TinyGPTError(f"There is no file or folder {path}: check the path.") from error


def load_file(path: Path, size_limit: int) -> Corpus:
    return Corpus(path.name, read_bytes(path, size_limit), f"the file {path.name}")


def load_folder(folder: Path, size_limit: int) -> Corpus:
    """All text files below, sorted by path; hidden files and folders, binaries and empty files are skipped."""
    texts: list[bytes] = []
    size, skipped = 0, 0
    for path in visible_files(folder):
        text = read_bytes(path, size_limit)
        if not text or b"\0" in text[:BINARY_PROBE_BYTES]:
            skipped += 1
            continue
        texts.append(text)
        size += len(text) + 1
        if size > size_limit:
            raise too_big(folder, size_limit)
    name = folder.resolve().name or str(folder)
    left_out = f", {skipped} skipped as binary or empty" if skipped else ""
    files = "1 text file" if len(texts) == 1 else f"{len(texts)} text files"
    return Corpus(name, b"\n".join(texts), f"the folder {name}, {files}{left_out}")


def visible_files(folder: Path) -> list[Path]:
    def fail(error: OSError) -> None:
        raise error

    found = []
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files if not name.startswith(".")]
    return sorted((path for path in found if path.is_file()), key=lambda path: path.relative_to(folder).parts)


def read_bytes(path: Path, size_limit: int) -> bytes:
    try:
        file = open_regular(path)
    except TinyGPTError as error:
        raise TinyGPTError(f"Cannot take {path} ({error}): give a file or a folder of text.") from error
    with file:
        content = read_limited(file, path, size_limit)
    if path.suffix != ".gz":
        return content
    try:
        return read_limited(gzip.GzipFile(fileobj=io.BytesIO(content)), path, size_limit)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TinyGPTError(f"{path} is not a whole gzip file: unpack it, or rename it.") from error


def read_limited(file: BinaryIO | gzip.GzipFile, path: Path, size_limit: int) -> bytes:
    content = file.read(size_limit + 1)
    if len(content) > size_limit:
        raise too_big(path, size_limit)
    return content


def too_big(path: Path, size_limit: int) -> TinyGPTError:
    return TinyGPTError(f"{path} holds more than {size_limit:,} bytes of text: give a smaller part of it.")
