"""Going on with a run from its last checkpoint, as if it had never stopped."""

from __future__ import annotations

from typing import Any

import typer

from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.models import warn_of_left_out
from tinygpt.cli.output import Output
from tinygpt.cli.settings import read_settings
from tinygpt.cli.training import Job, draw
from tinygpt.core.config import TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.run.progress import Progress
from tinygpt.runs import RunFolder


def resumed_job(folder: RunFolder, changes: dict[str, dict[str, Any]], texts: TextFlags, output: Output) -> Job:
    from tinygpt.formats import load_tinygpt

    settings = read_settings(folder.config).with_values("sample", changes["sample"])
    settings.run.model.going_on(**changes["model"])
    checkpoint = None if folder.never_saved() else load_tinygpt(folder.checkpoint("last"))
    if checkpoint is not None and checkpoint.config.model != settings.run.model:
        raise TinyGPTError(
            f"{folder.config} describes another model than the checkpoint beside it: undo the change to [model]"
        )
    if checkpoint is not None:
        warn_of_left_out(folder.checkpoint("last"), checkpoint)
    progress = Progress() if checkpoint is None else checkpoint.progress
    if progress.step and output.main and not folder.plot.exists():
        draw(folder, settings)  # the process before was killed
    train = resumed_training(settings.run.train, changes["train"], progress, output)
    settings = texts.moved(settings.with_values("train", train.as_dict()))
    return Job(settings, folder=folder, resumed=checkpoint)


def resumed_training(before: TrainConfig, changes: dict[str, Any], progress: Progress, output: Output) -> TrainConfig:
    """The training settings to go on with; where nothing is left to do, a sentence and the end of the command."""
    train = before.going_on(**changes)
    ended = why_ended(train, progress)
    if ended:
        output.hint(ended)
        raise typer.Exit
    if "steps" in changes and train.schedule == "cosine":
        output.warn("with another number of steps the cosine schedule changes from here on")
    return train


def why_ended(train: TrainConfig, progress: Progress) -> str:
    """A sentence where there is nothing left to do, else nothing."""
    if progress.step >= train.steps and not progress.validation_due:
        more = f"{progress.step:,} steps, more than the {train.steps:,} asked for"
        done = more if progress.step > train.steps else f"all of its {train.steps:,} steps"
        return f"This run has done {done}: it is finished. To train it further, raise --steps."
    if train.patience and progress.evals_since_best >= train.patience:
        return (
            f"This run stopped early at step {progress.step:,}, after {progress.evals_since_best} validations without "
            f"a new best. To train it further, raise --patience (0: never stop early)."
        )
    return ""
