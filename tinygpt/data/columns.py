"""One column of a table as text: of JSON lines (.jsonl) or of a CSV file, named after a '#', as in notes.jsonl#body."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError, instead

TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
BETWEEN = "\n\n"
SHOWN = 8  # columns that a sentence names


def divided(path: Path) -> tuple[Path, str]:
    """The file and the column that a path names; the column is empty where there is none."""
    file, mark, column = str(path).rpartition("#")
    if mark and Path(file).suffix in TABLES and not path.exists():
        return Path(file), column
    return path, ""


def column_of(path: Path, content: bytes, column: str) -> bytes:
    """The column's texts, a blank line between them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise TinyGPTError(f"{path} is not UTF-8 ({fault.reason} at byte {fault.start:,}): convert it first") from None
    found = []
    for row in rows_of(path, text):
        if column not in row:
            raise TinyGPTError(f"{path} has no column '{column}'{instead(column, list(row)[:SHOWN])}")
        if row[column]:
            found.append(str(row[column]).strip("\n"))
    return (BETWEEN.join(found) + "\n").encode()


def rows_of(path: Path, text: str) -> Iterator[dict[str, Any]]:
    return rows_of_json(path, text) if path.suffix in TABLES[:2] else rows_of_csv(path, text)


def rows_of_json(path: Path, text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as fault:
                raise TinyGPTError(f"{path}, line {number:,} is not JSON ({fault})") from None
            if not isinstance(row, dict):
                raise TinyGPTError(f"{path}, line {number:,} is not a JSON object, so it has no columns")
            yield row


def rows_of_csv(path: Path, text: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(1 << 30)
    try:
        yield from csv.DictReader(io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
    except csv.Error as fault:
        raise TinyGPTError(f"{path} is not a whole CSV file ({fault})") from None


def advice_of(path: Path, content: bytes) -> str:
    """What to tell somebody who gives a table whole."""
    if path.suffix not in TABLES:
        return ""
    try:
        first = next(rows_of(path, content.decode("utf-8-sig")), {})
    except (TinyGPTError, UnicodeDecodeError):
        return ""
    names = [name for name in list(first)[:SHOWN] if name]
    if not names:
        return ""
    return f"{path.name} is a table: to train on one column, write {path.name}#{names[-1]} (it has {', '.join(names)})"
