"""New runs: from a preset, a file and settings, with start values or with the weights of a model that is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.config import LoraConfig, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import DEFAULT_PRESET, adapting, preset_like, tuned
from tinygpt.jobs.choices import Origin
from tinygpt.jobs.session import Job
from tinygpt.jobs.settings import UNSTATED_RECIPE, TrainSettings, read_settings, read_tables, table
from tinygpt.jobs.texts import full_path
from tinygpt.store.bundled import named
from tinygpt.store.naming import Tell, load_model, locate, tell_left_out

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint

Changes = dict[str, dict[str, Any]]  # settings by section and name
WithTexts = Callable[[TrainSettings], TrainSettings]  # that names the texts which were asked for


class Base(NamedTuple):
    """A model that a run begins with, or whose adapters it trains; where it lies and the hash of its weights."""

    model: Checkpoint
    origin: Origin


def new_job(
    changes: Changes,
    with_texts: WithTexts,
    *,
    config: Path | None = None,
    preset: str | None = None,
    recipe: str | None = None,
    base: Base | None = None,
    tell: Tell = lambda sentence: None,
) -> Job:
    """What `config` says, its preset and recipe unless others are named, and on top the changes."""
    settings = read_settings(config) if config is not None else TrainSettings.of_preset(DEFAULT_PRESET)
    if base is None and settings.origin.model:
        base = open_base(settings.origin, tell)
    if base is None:
        settings = changed(settings, preset, recipe, changes, with_texts)
        stated = {} if config is None or preset is not None or recipe is not None else read_tables(config)
        names = {*changes["model"], *changes["train"], *table(stated, "model"), *table(stated, "train")}
        return Job(settings, free=frozenset(tuned(settings.preset, settings.recipe)) - names)
    model = base.model.config.model
    settings = TrainSettings.fine_tuning(model, recipe)
    if config is not None:
        settings = read_settings(config, settings)
    if preset is not None:
        settings = settings.with_preset(preset, recipe).with_options(model)
    settings = changed(replace(settings, origin=base.origin), None, None, changes, with_texts)
    require_shape(settings.run.model, model, base.origin)
    return Job(settings, base=base.model)


def new_adapter_job(base: Base, lora: dict[str, Any], changes: Changes, with_texts: WithTexts) -> Job:
    model = base.model.config
    run = adapting(model, LoraConfig(**lora))
    settings = TrainSettings(preset_like(model.model), run, UNSTATED_RECIPE, origin=base.origin)
    free = frozenset({"steps"} - {*changes["model"], *changes["train"]})
    return Job(changed(settings, None, None, changes, with_texts), base=base.model, free=free)


def changed(
    settings: TrainSettings, preset: str | None, recipe: str | None, changes: Changes, with_texts: WithTexts
) -> TrainSettings:
    if preset is not None or recipe is not None:
        settings = settings.with_preset(preset, recipe)
    return with_texts(settings).with_flags(changes).with_default_text().checked()


def kept_name(model: str | os.PathLike[str]) -> str:
    """MODEL as config.toml keeps it: a name that comes with the package, or a full path."""
    place = locate(model).path
    return os.fspath(model) if named().get(os.fspath(model)) == place else full_path(place)


def open_base(origin: Origin, tell: Tell) -> Base:
    """The model and its hash, which is the one that was stated, if any was."""
    from tinygpt.store.formats.checkpoint import state_sha256

    model = load_model(origin.model)
    tell_left_out(origin.model, model, tell)
    sha256 = state_sha256(model.state)
    if origin.sha256 not in ("", sha256):
        raise TinyGPTError(
            f"{origin.model} has other weights than the run began with: their sha256 is {sha256[:12]}…, "
            f"not {origin.sha256[:12]}…; restore the file, or say --init-from another"
        )
    return Base(model, origin._replace(sha256=sha256))


def require_shape(asked: ModelConfig, own: ModelConfig, origin: Origin) -> None:
    for field in ModelConfig.FIELDS:
        wanted, there = getattr(asked, field.name), getattr(own, field.name)
        if wanted != there:
            raise TinyGPTError(
                f"{origin.title()} has {field.name} {there}, not {wanted}, and a run that begins with a model keeps "
                f"its shape: leave {field.name} and other presets out, or train without --init-from"
            )
