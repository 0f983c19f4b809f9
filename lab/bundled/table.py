"""The models that come with the package, and how each is trained: what `make models` runs and the cards quote."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.presets import EXERCISES, cut_short, preset
from tinygpt.core.tasks import is_task
from tinygpt.jobs.choices import NO_TEXT, DataChoice
from tinygpt.jobs.settings import PROMPT, TrainSettings


@dataclass(frozen=True)
class Planned:
    name: str
    title: str
    preset: str
    data: str
    changes: dict[str, Any] = field(default_factory=dict)  # settings of the model and of training, over the preset's
    recipe: str = "modern"
    dtype: str = "int8"  # what its weights are packed in

    def settings(self) -> TrainSettings:
        settings = TrainSettings.of_preset(self.preset, self.recipe)
        settings = replace(settings, data=DataChoice(name=self.data))
        return replace(settings, run=cut_short(usual_preset(settings), self.changes))


PLANNED = (
    Planned(
        "shakespeare-huge",
        "Shakespeare, our best",
        "huge",
        "shakespeare-full",
        {"steps": 8000, "dropout": 0.05, "windows": "random"},
    ),
    Planned("shakespeare-small", "Shakespeare, loads at once", "small", "shakespeare-full", {"steps": 4800}),
    Planned("moby-dick", "Melville's novel", "large", "moby-dick", {"steps": 4800, "dropout": 0.05, "ngrams": ""}),
    Planned("python", "Python code", "medium", "python", {"steps": 3000}),
    Planned(
        "addition", "adds numbers of up to three digits", "small", "task:sums", {"steps": 8000, "windows": "shuffled"}
    ),
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
    flags = ["--preset", settings.preset, "--recipe", settings.recipe]
    flags += text_flags(settings.data) + text_flags(settings.validation, "val-")
    if settings.data.budget:
        flags += ["--budget", str(settings.data.budget)]
    for name, value in settings.run.values().items():
        if value != usual_run(settings)[name]:
            flags += [f"--{name.replace('_', '-')}", str(value)]
    usual = {**SampleConfig().as_dict(), "prompt": PROMPT.default}
    for name, value in {**settings.sample.as_dict(), "prompt": settings.prompt}.items():
        if value != usual[name]:
            flags += ["--set", f"sample.{name}={value}"]
    return flags


def usual_run(settings: TrainSettings) -> dict[str, Any]:
    """What a run has of which nothing is stated but its preset, its recipe, its texts, and how long it is."""
    run = usual_preset(settings)
    if settings.validation != NO_TEXT:
        run = run.replace(val_fraction=0.0)
    shorter = cut_short(run, {"steps": settings.run.train.steps})
    return {**shorter.values(), "steps": run.train.steps}


def usual_preset(settings: TrainSettings) -> RunConfig:
    return preset(settings.preset, settings.recipe, EXERCISES if is_task(settings.data.name) else None)


def text_flags(text: DataChoice, kind: str = "") -> list[str]:
    if text == NO_TEXT:
        return []
    return [f"--{kind}file", text.file] if text.file else [f"--{kind}data", text.name]


def command_line(settings: TrainSettings) -> str:
    return shlex.join(["tinygpt", "train", *command_of(settings)])


def require_planned(name: str, settings: TrainSettings) -> None:
    """A run that is packed under a planned name is the planned one, on whichever engine it was made."""
    if settings.origin.model:
        raise TinyGPTError("this run began with another model, which a card has no room for: pack one that did not")
    row = plan_of(name)
    if row is not None and command_of(row.settings()) != command_of(settings):
        raise TinyGPTError(
            f"{name} is planned as `{command_line(row.settings())}`, but this run is `{command_line(settings)}`: "
            f"train it as planned, or correct lab/bundled/table.py"
        )
