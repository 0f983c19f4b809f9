"""The models that come with the package, and how each is trained: what `make models` runs and the cards quote."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from tinygpt.cli.choices import NO_TEXT, DataChoice
from tinygpt.cli.settings import SECTIONS, TrainSettings
from tinygpt.core.errors import TinyGPTError, instead


@dataclass(frozen=True)
class Planned:
    name: str
    title: str
    preset: str
    data: str
    changes: dict[str, Any] = field(default_factory=dict)  # settings of the model and of training, over the preset's

    def settings(self) -> TrainSettings:
        settings = TrainSettings.of_preset(self.preset)
        return replace(settings, run=settings.run.replace(**self.changes), data=DataChoice(name=self.data))


PLANNED = (
    Planned("shakespeare-huge", "Shakespeare, our best", "huge", "shakespeare"),
    Planned("shakespeare-small", "Shakespeare, loads at once", "small", "shakespeare"),
    Planned("moby-dick", "Melville's novel", "medium", "moby-dick"),
    Planned("addition", "adds two numbers", "tiny", "task:addition"),
)


def names() -> list[str]:
    return [row.name for row in PLANNED]


def plan_of(name: str) -> Planned | None:
    return next((row for row in PLANNED if row.name == name), None)


def planned(name: str) -> Planned:
    row = plan_of(name)
    if row is None:
        raise TinyGPTError(f"no model '{name}' is planned{instead(name, names())}")
    return row


def command_of(settings: TrainSettings) -> list[str]:
    """The flags of `tinygpt train` that give these settings; folder and engine are left to whoever runs it."""
    flags = ["--preset", settings.preset]
    flags += text_flags(settings.data) + text_flags(settings.validation, "val-")
    if settings.data.budget:
        flags += ["--budget", str(settings.data.budget)]
    if settings.origin.model:
        flags += ["--init-from", settings.origin.model]
    usual = TrainSettings.of_preset(settings.preset)
    for section in SECTIONS:
        for setting in SECTIONS[section].FIELDS:
            value = getattr(part_of(settings, section), setting.name)
            if value == getattr(part_of(usual, section), setting.name):
                continue
            if section == "sample":
                flags += ["--set", f"sample.{setting.name}={value}"]
            elif setting.name != "val_fraction" or settings.validation == NO_TEXT:
                flags += [f"--{setting.name.replace('_', '-')}", str(value)]
    return flags


def text_flags(text: DataChoice, kind: str = "") -> list[str]:
    if text == NO_TEXT:
        return []
    return [f"--{kind}file", text.file] if text.file else [f"--{kind}data", text.name]


def part_of(settings: TrainSettings, section: str) -> Any:
    return {"model": settings.run.model, "train": settings.run.train, "sample": settings.sample}[section]


def command_line(settings: TrainSettings) -> str:
    return shlex.join(["tinygpt", "train", *command_of(settings)])


def require_planned(name: str, settings: TrainSettings) -> None:
    """A run that is packed under a planned name is the planned one, on whichever engine it was made."""
    row = plan_of(name)
    if row is not None and command_of(row.settings()) != command_of(settings):
        raise TinyGPTError(
            f"{name} is planned as `{command_line(row.settings())}`, but this run is `{command_line(settings)}`: "
            f"train it as planned, or correct tinygpt/zoo/table.py"
        )
