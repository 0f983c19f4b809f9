"""The texts of a run: found by what its settings say, and known by their hashes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.jobs.choices import NO_TEXT, DataChoice
from tinygpt.jobs.settings import TrainSettings

if TYPE_CHECKING:
    from tinygpt.data import Corpus, Progress

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


def open_corpus(
    choice: DataChoice, remedy: str = OF_CONFIG, progress: Progress | None = None, refresh: bool = False
) -> Corpus:
    """Load or fetch the text; where a hash is stated, it is that text or an error that ends with the remedy."""
    from tinygpt.data import is_corpus, load_corpus

    if choice.name and choice.sha256 and not is_corpus(choice.name):
        raise TinyGPTError(f"{choice.name} was given to that run by a program, and lies nowhere: {remedy}")
    corpus = load_corpus(
        choice.name or None,
        file=Path(choice.file) if choice.file else None,
        budget=choice.budget or None,
        token=os.environ.get(TOKEN_VARIABLE),
        progress=progress,
        refresh=refresh,
    )
    return known(corpus, choice, remedy)


def known(corpus: Corpus, choice: DataChoice, remedy: str) -> Corpus:
    if choice.sha256 and choice.sha256 != corpus.sha256:
        raise TinyGPTError(
            f"{choice.describe()} is not the text of that run: its sha256 is {corpus.sha256[:12]}…, "
            f"that of the run's text {choice.sha256[:12]}…; {remedy}"
        )
    return corpus


def open_texts(
    settings: TrainSettings, remedy: str = OF_CONFIG, opened: Callable[[DataChoice, str], Corpus] = open_corpus
) -> Texts:
    corpus = opened(settings.data, remedy.format(""))
    if settings.validation == NO_TEXT:
        return Texts(corpus, None, *corpus.split(settings.run.train.val_fraction))
    validation = opened(settings.validation, remedy.format("val-"))
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
