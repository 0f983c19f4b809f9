"""Going on with a run from its last checkpoint, or from a file, as if it had never stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygpt.core.config import RunConfig, TrainConfig
from tinygpt.core.edited import EDIT, other_edit
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset_like, recipe_like
from tinygpt.core.train.progress import Progress
from tinygpt.jobs.beginning import Changes, WithTexts, open_base
from tinygpt.jobs.choices import NO_TEXT, DataChoice, Origin
from tinygpt.jobs.session import Job, draw
from tinygpt.jobs.settings import TrainSettings, read_settings
from tinygpt.jobs.texts import text_in
from tinygpt.store.naming import Tell, load_model, locate, tell_left_out
from tinygpt.store.runs import RunFolder

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint


class NothingLeft(TinyGPTError):
    """The run has done what it was to do."""


def resumed_job(
    folder: RunFolder, changes: Changes, moved_texts: WithTexts, tell: Tell, moved: Origin | None = None
) -> Job:
    """`moved` is where the model lies now that the run began with."""
    settings = read_settings(folder.config).with_values("sample", changes["sample"])
    if moved is not None:
        settings = replace(settings, origin=moved._replace(sha256=settings.origin.sha256))
    settings.run.model.going_on(**changes["model"])
    if settings.run.lora is not None:
        settings.run.lora.going_on(**changes.get("lora", {}))
    checkpoint = None if folder.never_saved() else last_of(folder, settings)
    if checkpoint is not None and checkpoint.config.model != settings.run.model:
        raise TinyGPTError(
            f"{folder.config} describes another model than the checkpoint beside it: undo the change to [model]"
        )
    if checkpoint is not None:
        tell_left_out(folder.checkpoint("last"), checkpoint, tell)
        require_same_edit(folder.path, checkpoint)
    progress = Progress() if checkpoint is None else checkpoint.progress
    train = resumed_training(settings.run.train, changes["train"], progress, tell)
    settings = moved_texts(settings.with_values("train", train.as_dict()))
    needed = settings.origin.model and (checkpoint is None or settings.run.lora is not None)
    base = open_base(settings.origin, tell).model if needed else None
    return Job(settings, folder=folder, resumed=checkpoint, base=base)


def require_same_edit(run: Path, checkpoint: Checkpoint) -> None:
    if checkpoint.edit != EDIT:
        name = checkpoint.edit.split(" ")[0]
        how = f"go on with --edit {name}, or with the file of that edit" if name else "go on without an edit"
        raise TinyGPTError(f"{run} cannot go on here: {other_edit(checkpoint.edit, EDIT)}; {how}")


def last_of(folder: RunFolder, settings: TrainSettings) -> Checkpoint:
    from tinygpt.store.formats import load_tinygpt
    from tinygpt.store.formats.adapter_file import load_adapter

    if settings.run.lora is None:
        return load_tinygpt(folder.checkpoint("last"))
    adapter = load_adapter(folder.checkpoint("last"))
    if adapter.lora != settings.run.lora or adapter.base_sha256 != settings.origin.sha256:
        raise TinyGPTError(
            f"{folder.config} describes other adapters than the checkpoint beside it: undo the change to [lora] or "
            f"[origin]"
        )
    return adapter.run


def resumed_file(file: Path, changes: Changes, moved_texts: WithTexts, tell: Tell) -> Job:
    """A new run that goes on from where the file's stands."""
    checkpoint, run = load_model(file), locate(file).run
    tell_left_out(file, checkpoint, tell)
    if not checkpoint.state.slots:
        raise TinyGPTError(
            f"{file} holds weights alone, and nothing of the optimizer to go on with: begin a run with them by "
            f"--init-from {file}"
        )
    checkpoint.config.model.going_on(**changes["model"])
    settings = settings_in(checkpoint) if run is None else read_settings(RunFolder(run).config)
    train = resumed_training(checkpoint.config.train, changes["train"], checkpoint.progress, tell)
    settings = replace(settings, run=RunConfig(checkpoint.config.model, train))
    settings = moved_texts(settings.with_values("sample", changes["sample"]))
    require_named(file, settings.data, checkpoint.data, "--data or --file")
    if settings.validation != NO_TEXT:
        require_named(file, settings.validation, checkpoint.data.get("validation"), "--val-data or --val-file")
    return Job(settings, resumed=checkpoint)


def settings_in(checkpoint: Checkpoint) -> TrainSettings:
    """What a file's header says, where there is no config.toml to say more."""
    stated = checkpoint.origin or {}
    return TrainSettings(
        preset=preset_like(checkpoint.config.model),
        recipe=recipe_like(checkpoint.config),
        run=checkpoint.config,
        data=text_in(checkpoint.data),
        validation=text_in(checkpoint.data.get("validation")),
        origin=Origin(**{key: stated[key] for key in Origin._fields if isinstance(stated.get(key), str)}),
    )


def require_named(file: Path, text: DataChoice, facts: Any, flags: str) -> None:
    if not text.name and not text.file:
        name = facts.get("name") if isinstance(facts, dict) else None
        which = f"names its text '{name}'" if isinstance(name, str) else "does not say which text it was trained on"
        raise TinyGPTError(f"{file} {which}: say with {flags} where that is")


def resumed_training(before: TrainConfig, changes: dict[str, Any], progress: Progress, tell: Tell) -> TrainConfig:
    train = before.going_on(**changes)
    ended = why_ended(train, progress)
    if ended:
        raise NothingLeft(ended)
    if "steps" in changes and train.schedule == "cosine":
        tell("with another number of steps the cosine schedule changes from here on")
    return train


def draw_missing(folder: RunFolder) -> None:
    """The curve of a run whose process was killed before it could."""
    if not folder.plot.exists() and folder.read_metrics():
        draw(folder, read_settings(folder.config))


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
