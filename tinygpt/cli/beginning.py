"""New runs: from a preset, a file and flags, with start values or with the weights of a model that is there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygpt.cli.choices import Origin
from tinygpt.cli.corpora import TextFlags, full_path
from tinygpt.cli.models import open_model
from tinygpt.cli.settings import UNSTATED_RECIPE, TrainSettings, read_settings
from tinygpt.cli.training import Job
from tinygpt.core.config import LoraConfig, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import DEFAULT_PRESET, adapting, preset_like
from tinygpt.models import locate
from tinygpt.zoo import named

if TYPE_CHECKING:
    from tinygpt.formats import Checkpoint

Changes = dict[str, dict[str, Any]]  # settings by section and name


def new_job(
    config: Path | None,
    preset: str | None,
    recipe: str | None,
    init_from: Path | None,
    changes: Changes,
    texts: TextFlags,
) -> Job:
    settings = read_settings(config) if config is not None else TrainSettings.of_preset(DEFAULT_PRESET)
    origin = settings.origin if init_from is None else Origin(kept_name(init_from))
    if not origin.model:
        return Job(changed(settings, preset, recipe, changes, texts))
    model, origin = open_origin(origin)
    settings = TrainSettings.fine_tuning(model.config.model, recipe)
    if config is not None:
        settings = read_settings(config, settings)
    if preset is not None:
        settings = settings.with_preset(preset, recipe).with_options(model.config.model)
    settings = changed(replace(settings, origin=origin), None, None, changes, texts)
    require_shape(settings.run.model, model.config.model, origin)
    return Job(settings, weights=model.state.w)


def new_adapter_job(model: Path, lora: dict[str, Any], changes: Changes, texts: TextFlags) -> Job:
    base, origin = open_origin(Origin(kept_name(model)))
    run = adapting(base.config, LoraConfig(**lora))
    settings = TrainSettings(preset_like(base.config.model), run, UNSTATED_RECIPE, origin=origin)
    return Job(changed(settings, None, None, changes, texts), weights=base.state.w)


def changed(
    settings: TrainSettings, preset: str | None, recipe: str | None, changes: Changes, texts: TextFlags
) -> TrainSettings:
    """What the flags say, on top."""
    if preset is not None or recipe is not None:
        settings = settings.with_preset(preset, recipe)
    return texts.on(settings).with_flags(changes).with_default_text().checked()


def kept_name(model: Path) -> str:
    """MODEL as config.toml keeps it: a name that comes with the package, or a full path."""
    place = locate(model).path
    return os.fspath(model) if named().get(os.fspath(model)) == place else full_path(place)


def open_origin(origin: Origin) -> tuple[Checkpoint, Origin]:
    """The model and its hash, which is the one that was stated, if any was."""
    from tinygpt.formats.checkpoint import weights_sha256

    model = open_model(Path(origin.model))
    sha256 = weights_sha256(model.state.w)
    if origin.sha256 not in ("", sha256):
        raise TinyGPTError(
            f"{origin.model} has other weights than the run began with: their sha256 is {sha256[:12]}…, "
            f"not {origin.sha256[:12]}…; restore the file, or say --init-from another"
        )
    return model, origin._replace(sha256=sha256)


def require_shape(asked: ModelConfig, own: ModelConfig, origin: Origin) -> None:
    for field in ModelConfig.FIELDS:
        wanted, there = getattr(asked, field.name), getattr(own, field.name)
        if wanted != there:
            raise TinyGPTError(
                f"{origin.title()} has {field.name} {there}, not {wanted}, and a run that begins with a model keeps "
                f"its shape: leave {field.name} and other presets out, or train without --init-from"
            )
