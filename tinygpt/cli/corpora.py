"""The text that a command works on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from tinygpt.cli.settings import DataChoice
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.text import encoding_advice

if TYPE_CHECKING:
    from tinygpt.cli.output import Output
    from tinygpt.data import Corpus

TOKEN_VARIABLE = "HF_TOKEN"
# What to do about a text that has not the hash stated for it: by a config, a run to go on with, a run to measure.
OF_CONFIG = "restore the text, or take data.sha256 out of the config"
OF_RESUMED = "say with --file where that text is now, or start a new run"
OF_MEASURED = "restore the text, or say with --data or --file which to measure"


def choose_data(before: DataChoice, name: str | None, file: Path | None, budget: int | None) -> DataChoice:
    """What the flags say, on top of what a file said. Another text has another hash."""
    if name and file:
        raise TinyGPTError("give either --data or --file, not both")
    if file:
        return DataChoice(file=full_path(file))
    if name == "":
        raise TinyGPTError("--data is empty: name a corpus, as `tinygpt data list` does")
    if name:
        return DataChoice(name=name, budget=budget or 0)
    return before._replace(budget=budget, sha256="") if budget else before


def full_path(file: Path) -> str:
    path = os.path.realpath(os.path.expanduser(file))
    try:
        path.encode()
    except UnicodeEncodeError:
        raise TinyGPTError(f"the name of {path} is not UTF-8, which a config.toml must be: rename it") from None
    return path


def open_corpus(choice: DataChoice, output: Output, refresh: bool = False, remedy: str = OF_CONFIG) -> Corpus:
    """Load or fetch the text; where a hash is stated, it is that text or an error that ends with the remedy."""
    from tinygpt.data import DEFAULT_BUDGET, load_corpus

    with output.console.status(Text(f"loading {choice.describe()}")) as status:
        corpus = load_corpus(
            choice.name or None,
            file=Path(choice.file) if choice.file else None,
            budget=choice.budget or DEFAULT_BUDGET,
            token=os.environ.get(TOKEN_VARIABLE),
            progress=lambda done, budget, rows: status.update(
                Text(f"fetching {choice.name}: {done:,} of {budget:,} bytes, {rows:,} rows")
            ),
            refresh=refresh,
        )
    if choice.sha256 and choice.sha256 != corpus.sha256:
        raise TinyGPTError(
            f"{choice.describe()} is not the text of that run: its sha256 is {corpus.sha256[:12]}…, "
            f"that of the run's text {choice.sha256[:12]}…; {remedy}"
        )
    advice = encoding_advice(corpus.text)
    if advice:
        output.warn(advice)
    return corpus


def pinned(choice: DataChoice, corpus: Corpus) -> DataChoice:
    """The choice as config.toml keeps it: the default named, a file wherever one is, the text's hash with it."""
    if choice.file:
        return choice._replace(name="", file=full_path(Path(choice.file)), sha256=corpus.sha256)
    return choice._replace(name=choice.name or corpus.name, sha256=corpus.sha256)
