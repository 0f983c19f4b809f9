"""Texts that a program has in its hands, as a run's settings name them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.data import Corpus, is_corpus
from tinygpt.running.choices import DataChoice
from tinygpt.running.settings import TrainSettings
from tinygpt.running.texts import full_path, known, open_corpus

GivenText = str | bytes | Path | Corpus  # a path is that of a file


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
        if isinstance(given, Path):
            return DataChoice(file=full_path(given), sha256=sha256)
        corpus = given if isinstance(given, Corpus) else text_of(given)
        choice = DataChoice(name=corpus.name, sha256=sha256 or corpus.sha256)
        self.corpora[choice] = corpus
        return choice

    def opened(self, choice: DataChoice, remedy: str) -> Corpus:
        return known(self.corpora[choice], choice, remedy) if choice in self.corpora else open_corpus(choice, remedy)


def text_of(text: str | bytes) -> Corpus:
    return Corpus("your text", text.encode() if isinstance(text, str) else text, "a text that was given")
