"""The text that a command works on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tinygpt.cli.settings import DataChoice
from tinygpt.core.errors import TinyGPTError

if TYPE_CHECKING:
    from rich.console import Console

    from tinygpt.data import Corpus

TOKEN_VARIABLE = "HF_TOKEN"


def choose_data(before: DataChoice, name: str | None, file: Path | None, budget: int | None) -> DataChoice:
    """What the flags say, on top of what a file said. Another text has another hash."""
    if name and file:
        raise TinyGPTError("give either --data or --file, not both")
    if file:
        return DataChoice(file=str(file.expanduser().resolve()))
    if name:
        return DataChoice(name=name, budget=budget or 0)
    return before._replace(budget=budget, sha256="") if budget else before


def open_corpus(choice: DataChoice, console: Console, refresh: bool = False) -> Corpus:
    """Load or fetch the text; where a hash is stated, it is that text or an error."""
    from tinygpt.data import DEFAULT_BUDGET, load_corpus

    with console.status(f"loading {choice.describe()}") as status:
        corpus = load_corpus(
            choice.name or None,
            file=Path(choice.file) if choice.file else None,
            budget=choice.budget or DEFAULT_BUDGET,
            token=os.environ.get(TOKEN_VARIABLE),
            progress=lambda done, budget, rows: status.update(
                f"fetching {choice.name}: {done:,} of {budget:,} bytes, {rows:,} rows"
            ),
            refresh=refresh,
        )
    if choice.sha256 and choice.sha256 != corpus.sha256:
        raise TinyGPTError(
            f"{choice.describe()} is not the text of that run: its sha256 is {corpus.sha256[:12]}…, "
            f"the config says {choice.sha256[:12]}…; restore the text, or train anew without data.sha256"
        )
    return corpus


def pinned(choice: DataChoice, corpus: Corpus) -> DataChoice:
    """The choice as config.toml keeps it: the default named, the text's hash with it."""
    name = "" if choice.file else choice.name or corpus.name
    return choice._replace(name=name, sha256=corpus.sha256)
