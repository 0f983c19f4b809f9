"""The text that a command works on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from tinygpt.cli.choices import NO_TEXT, DataChoice
from tinygpt.cli.settings import TrainSettings
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.text import encoding_advice

if TYPE_CHECKING:
    from tinygpt.cli.output import Output
    from tinygpt.data import Corpus

TOKEN_VARIABLE = "HF_TOKEN"
# What to do about a text that has not the hash stated for it: by a config, a run to go on with, a run to measure.
OF_CONFIG = "restore the text, or take its sha256 out of the config"
OF_RESUMED = "say with --{}file where that text is now, or start a new run"
OF_MEASURED = "restore the text, or say with --data or --file which to measure"


class Texts(NamedTuple):
    """What a run trains on and what it is validated on: a part of its corpus, or a corpus of its own."""

    corpus: Corpus
    validation: Corpus | None
    train: bytes
    val: bytes

    def describe(self) -> str:
        apart = "" if self.validation is None else f" from {self.validation.name}"
        return f"{self.corpus.name}: {len(self.corpus.text):,} bytes; {self.amounts()}{apart}"

    def amounts(self) -> str:
        return f"{len(self.train):,} train, {len(self.val):,} validation"


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
        return DataChoice(file=full_path(file))
    if name == "":
        raise TinyGPTError(f"--{kind}data is empty: name a corpus, as `tinygpt data list` does")
    if name:
        return DataChoice(name=name, budget=budget or 0)
    return before._replace(budget=budget, sha256="") if budget else before


def text_in(facts: Any) -> DataChoice:
    """The text that a header speaks of; without a name where that is of a file, whose folder no header has."""
    from tinygpt.data import is_corpus

    stated = facts if isinstance(facts, dict) else {}
    name, budget, sha256 = (stated.get(key) for key in ("name", "budget", "sha256"))
    by_name = isinstance(name, str) and is_corpus(name)
    return DataChoice(
        name=str(name) if by_name else "",
        budget=budget if by_name and type(budget) is int else 0,
        sha256=sha256 if isinstance(sha256, str) else "",
    )


def full_path(file: Path) -> str:
    path = os.path.realpath(os.path.expanduser(file))
    try:
        path.encode()
    except UnicodeEncodeError:
        raise TinyGPTError(f"the name of {path} is not UTF-8, which a config.toml must be: rename it") from None
    return path


def open_corpus(choice: DataChoice, output: Output, refresh: bool = False, remedy: str = OF_CONFIG) -> Corpus:
    """Load or fetch the text; where a hash is stated, it is that text or an error that ends with the remedy."""
    from tinygpt.data import load_corpus

    with output.console.status(Text(f"loading {choice.describe()}")) as status:
        corpus = load_corpus(
            choice.name or None,
            file=Path(choice.file) if choice.file else None,
            budget=choice.budget or None,
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


def open_texts(settings: TrainSettings, output: Output, remedy: str = OF_CONFIG) -> Texts:
    corpus = open_corpus(settings.data, output, remedy=remedy.format(""))
    if settings.validation == NO_TEXT:
        return Texts(corpus, None, *corpus.split(settings.run.train.val_fraction))
    validation = open_corpus(settings.validation, output, remedy=remedy.format("val-"))
    return Texts(
        corpus, validation, corpus.text, validation.text if validation.held_out is None else validation.held_out
    )


def with_texts(settings: TrainSettings, texts: Texts) -> TrainSettings:
    """Settings that no other texts will do for."""
    settings = replace(settings, data=pinned(settings.data, texts.corpus))
    if texts.validation is None:
        return settings
    return replace(settings, validation=pinned(settings.validation, texts.validation))


def pinned(choice: DataChoice, corpus: Corpus) -> DataChoice:
    """The choice as config.toml keeps it: the default named, a file wherever one is, the text's hash with it."""
    if choice.file:
        return choice._replace(name="", file=full_path(Path(choice.file)), sha256=corpus.sha256)
    return choice._replace(name=choice.name or corpus.name, sha256=corpus.sha256)
