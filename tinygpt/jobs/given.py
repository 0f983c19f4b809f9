"""Texts that a program has in its hands, as a run's settings name them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.data import Corpus, is_corpus
from tinygpt.jobs.choices import DataChoice
from tinygpt.jobs.settings import TrainSettings
from tinygpt.jobs.texts import full_path, known, open_corpus

GivenText = str | bytes | Path | Corpus  # a path is that of a file, and so is a string that looks like one
PATH = re.compile(r"[^\s\0]{0,400}(/[^\s\0/]{1,250}|\.[A-Za-z0-9]{1,8})/?")


class Given:
    """Texts as a program has them, and what a run's settings say of them."""

    def __init__(self, text: GivenText | None, validation: str | bytes | None) -> None:
        self.text, self.validation = text, validation
        self.corpora: dict[DataChoice, Corpus] = {}

    def named(self, settings: TrainSettings) -> TrainSettings:
        """Of a new run."""
        if self.validation is not None:
            settings = settings.with_validation(self.choice(self.validation))
        return settings if self.text is None else replace(settings, data=self.choice(self.text))

    def moved(self, settings: TrainSettings) -> TrainSettings:
        """Of a run that goes on: these must be its texts, which their hashes tell."""
        for given, before in ((self.text, settings.data), (self.validation, settings.validation)):
            if given is None and before.name and not is_corpus(before.name):
                raise TinyGPTError(f"{before.name} was given to this run by a program, and lies nowhere: give it again")
        data = settings.data if self.text is None else self.choice(self.text, settings.data.sha256)
        if self.validation is None:
            return replace(settings, data=data)
        return replace(settings, data=data, validation=self.choice(self.validation, settings.validation.sha256))

    def choice(self, given: GivenText, sha256: str = "") -> DataChoice:
        if isinstance(given, str) and PATH.fullmatch(given):
            if not Path(given).exists():
                raise TinyGPTError(f"there is no file '{given}'; if that is the text itself, pass it as bytes")
            given = Path(given)
        if isinstance(given, Path):
            return DataChoice(file=full_path(given), sha256=sha256)
        corpus = given if isinstance(given, Corpus) else text_of(given, "a string, bytes, a Path or a corpus")
        choice = DataChoice(name=corpus.name, sha256=sha256 or corpus.sha256)
        self.corpora[choice] = corpus
        return choice

    def opened(self, choice: DataChoice, remedy: str) -> Corpus:
        return known(self.corpora[choice], choice, remedy) if choice in self.corpora else open_corpus(choice, remedy)


def text_of(text: object, kinds: str = "a string, bytes or a corpus") -> Corpus:
    return Corpus("your text", bytes_of(text, kinds), "a text that was given")


def bytes_of(text: object, kinds: str = "a string or bytes") -> bytes:
    """A text as bytes. `kinds` says what it may be."""
    return text if isinstance(text, bytes) else encoded(text, "the text", kinds)


def encoded(text: object, what: str, kinds: str = "a string") -> bytes:
    if not isinstance(text, str):
        remedy = "; decode the bytes first" if isinstance(text, bytes) else ""
        raise TinyGPTError(f"{what} must be {kinds}, not {type(text).__name__}{remedy}")
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        found = f"U+{ord(text[fault.start]):04X} at position {fault.start:,}"
        raise TinyGPTError(
            f"{what} cannot be written as UTF-8, because of {found}, half of a character: take it out"
        ) from None
