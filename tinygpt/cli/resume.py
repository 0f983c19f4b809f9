"""Going on with a run from its last checkpoint, as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tinygpt.cli.output import Output
from tinygpt.cli.settings import TrainSettings, read_settings
from tinygpt.cli.training import Job
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.progress import Progress
from tinygpt.runs import RunFolder


def resumed_job(path: Path, changes: dict[str, dict[str, Any]], output: Output) -> Job:
    from tinygpt.formats import load_tinygpt

    folder = RunFolder.open(path)
    settings = read_settings(folder.config)
    refuse_other_data(settings, changes)
    for section in ("train", "sample"):
        settings = settings.with_values(section, changes[section])
    refuse_other_model(settings, changes["model"])
    checkpoint = load_tinygpt(folder.checkpoint("last"))
    if checkpoint.config.model != settings.run.model:
        raise TinyGPTError(
            f"{folder.config} describes another model than the checkpoint beside it: undo the change to [model]"
        )
    ended = why_ended(settings, checkpoint.progress)
    if ended:
        output.hint(ended)
        raise typer.Exit
    if "steps" in changes["train"] and settings.run.train.schedule == "cosine":
        output.warn("with another number of steps the cosine schedule changes from here on")
    return Job(settings, folder=folder, resumed=checkpoint)


def refuse_other_model(settings: TrainSettings, changes: dict[str, Any]) -> None:
    model = settings.run.model.as_dict()
    for name, value in changes.items():
        if value != model[name]:
            raise TinyGPTError(
                f"a resumed run keeps its model: {name} is {model[name]} and cannot become {value}; start a new run"
            )


def refuse_other_data(settings: TrainSettings, changes: dict[str, dict[str, Any]]) -> None:
    """With another split, text that was held out would be trained on."""
    fraction = settings.run.train.val_fraction
    if changes["train"].get("val_fraction", fraction) != fraction:
        raise TinyGPTError(f"a resumed run keeps its split: val_fraction is {fraction}; start a new run")


def why_ended(settings: TrainSettings, progress: Progress) -> str:
    """A sentence where there is nothing left to do, else nothing."""
    train = settings.run.train
    if progress.step >= train.steps:
        return (
            f"This run has done {progress.step:,} of {train.steps:,} steps: it is finished. "
            f"To train it further, raise --steps."
        )
    if train.patience and progress.evals_since_best >= train.patience:
        return (
            f"This run stopped early at step {progress.step:,}, after {progress.evals_since_best} validations without "
            f"a new best. To train it further, raise --patience (0: never stop early)."
        )
    return ""
