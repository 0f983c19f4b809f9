"""Which text and which model a run begins with, as the user says it and as config.toml keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class DataChoice(NamedTuple):
    """Which text: a corpus by name or a path; with a hash, it must be that very text."""

    name: str = ""
    file: str = ""
    budget: int = 0  # bytes to take of a Hugging Face dataset or a task; 0: the default
    sha256: str = ""

    def describe(self) -> str:
        return self.file or self.name or "the default corpus"

    def title(self) -> str:
        return Path(self.file).name or self.name

    def stated(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if value}

    def facts(self) -> dict[str, Any]:
        """For a checkpoint's header, which travels: a file's name without its folder."""
        facts = {"name": self.title(), "budget": self.budget, "sha256": self.sha256}
        return {key: value for key, value in facts.items() if value}


NO_TEXT = DataChoice()


class Origin(NamedTuple):
    """The model whose weights a run begins with, as `models.locate` takes it; with a hash, it must have those."""

    model: str = ""
    sha256: str = ""

    def title(self) -> str:
        """Of a run's checkpoint RUN@last, of another file its name without its folder."""
        path = Path(self.model)
        of_run = path.parent.name == "checkpoints"
        return f"{path.parent.parent.name}@{path.stem.removeprefix('step-').lstrip('0')}" if of_run else path.name

    def describe(self) -> str:
        return f"{self.title()}, weights sha256 {self.sha256[:16]}…"

    def facts(self) -> dict[str, Any] | None:
        """For a checkpoint's header, which travels."""
        return {"model": self.title(), "sha256": self.sha256} if self.model else None


START_VALUES = Origin()
