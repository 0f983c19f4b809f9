"""The text that a command works on."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.text import encoding_advice
from tinygpt.jobs import texts
from tinygpt.jobs.choices import NO_TEXT, DataChoice
from tinygpt.jobs.settings import TrainSettings
from tinygpt.jobs.texts import OF_CONFIG, Texts, full_path

if TYPE_CHECKING:
    from tinygpt.cli.output import Output
    from tinygpt.data import Corpus


class TextFlags(NamedTuple):
    """What `train` is told of texts: of the one to train on, and of one to validate on."""

    data: str | None = None
    file: Path | None = None
    budget: int | None = None
    val_data: str | None = None
    val_file: Path | None = None

    def on(self, settings: TrainSettings) -> TrainSettings:
        """Of a new run."""
        settings = replace(settings, data=choose_data(settings.data, self.data, self.file, self.budget))
        return settings.with_validation(self.validation(NO_TEXT)) if self.apart else settings

    def moved(self, settings: TrainSettings) -> TrainSettings:
        """Of a run that goes on: its texts may have moved, but must be the same."""
        before, validation = settings.data, settings.validation
        if self.apart and validation == NO_TEXT:
            raise TinyGPTError(
                f"a run that goes on keeps what it is validated on, here {settings.run.train.val_fraction:g} of its "
                f"text: leave out the other one, or start a new run"
            )
        data = choose_data(before, self.data, self.file, self.budget)._replace(sha256=before.sha256)
        return replace(settings, data=data, validation=self.validation(validation)._replace(sha256=validation.sha256))

    def validation(self, before: DataChoice) -> DataChoice:
        return choose_data(before, self.val_data, self.val_file, self.budget if self.val_data else None, "val-")

    @property
    def apart(self) -> bool:
        return self.val_data is not None or self.val_file is not None


def choose_data(
    before: DataChoice, name: str | None, file: Path | None, budget: int | None, kind: str = ""
) -> DataChoice:
    """What the flags say (--data and --file, or with "val-" in their names), on top of what a file said.

    Another text has another hash.
    """
    if name and file:
        raise TinyGPTError(f"give either --{kind}data or --{kind}file, not both")
    if file:
        return DataChoice(file=full_path(kept_stream(file)))
    if name == "":
        raise TinyGPTError(f"--{kind}data is empty: name a corpus, as `tinygpt data list` does")
    if name:
        return DataChoice(name=name, budget=budget or 0)
    return before._replace(budget=budget, sha256="") if budget else before


def kept_stream(file: Path) -> Path:
    """The text of stdin ("-"), or of a pipe that a shell has opened (<(…)), as a file of the cache, which a run can be
    resumed with; else the file. Another pipe may have nobody at its other end, and is refused as no plain file."""
    if str(file) != "-" and not (str(file).startswith("/dev/fd/") and file.is_fifo()):
        return file
    from tinygpt.data.corpus import sha256
    from tinygpt.data.local import SIZE_LIMIT
    from tinygpt.disk.cache import cache_dir, write_atomically
    from tinygpt.disk.files import read_limited

    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
        text = read_limited(stream, SIZE_LIMIT)
    kept = cache_dir("given") / f"{'stdin' if str(file) == '-' else 'pipe'}-{sha256(text)[:12]}.txt"
    write_atomically(kept, text)
    return kept


def open_corpus(choice: DataChoice, output: Output, refresh: bool = False, remedy: str = OF_CONFIG) -> Corpus:
    """As `texts.open_corpus`, while a line says how far it is; what is odd about the text is said, too."""
    with output.console.status(Text(f"loading {choice.describe()}")) as status:

        def fetched(done: int, budget: int, rows: int) -> None:
            status.update(Text(f"fetching {choice.name}: {done:,} of {budget:,} bytes, {rows:,} rows"))

        corpus = texts.open_corpus(choice, remedy, fetched, refresh)
    from tinygpt.data.columns import advice_of

    advice = encoding_advice(corpus.text) or (advice_of(Path(choice.file), corpus.text) if choice.file else "")
    if advice:
        output.warn(advice)
    return corpus


def open_texts(settings: TrainSettings, output: Output, remedy: str = OF_CONFIG) -> Texts:
    return texts.open_texts(settings, remedy, lambda choice, remedy: open_corpus(choice, output, remedy=remedy))
