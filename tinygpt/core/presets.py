"""Runs by name."""

from collections import namedtuple

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.models.parameters import parameter_count

Preset = namedtuple("Preset", ("name", "layers", "d_model", "heads", "ctx", "batch", "steps"))

PRESETS = (
    Preset("tiny", 2, 48, 3, 32, 16, 2000),
    Preset("small", 3, 96, 3, 64, 16, 1500),
    Preset("medium", 4, 128, 4, 96, 16, 1000),
    Preset("large", 6, 192, 6, 128, 12, 600),
    Preset("xl", 8, 256, 8, 128, 8, 400),
    Preset("huge", 12, 256, 8, 256, 8, 5000),
    Preset("massive", 14, 384, 12, 256, 4, 1000),
    Preset("mega", 14, 384, 12, 512, 8, 800),
    Preset("behemoth", 24, 1280, 20, 512, 1, 50),
)
DEFAULT_PRESET = "small"
# docs/cli.md#fine-tuning has the measurement that these come from.
FINE_TUNING = {"optimizer": "adamw", "lr": 2e-3, "schedule": "cosine", "min_lr": 2e-4}


def preset_names() -> list[str]:
    return [preset.name for preset in PRESETS]


def preset(name: str) -> RunConfig:
    """The run that a preset's name stands for."""
    for row in PRESETS:
        if row.name == name:
            return RunConfig(
                ModelConfig(layers=row.layers, d_model=row.d_model, heads=row.heads, ctx=row.ctx),
                TrainConfig(batch=row.batch, steps=row.steps),
            )
    raise TinyGPTError(f"there is no preset '{name}'{instead(name, preset_names())}")


def preset_like(model: ModelConfig) -> str:
    """The preset of that shape; where there is none, the one of the nearest size."""
    for row in PRESETS:
        if (row.layers, row.d_model, row.heads, row.ctx) == (model.layers, model.d_model, model.heads, model.ctx):
            return str(row.name)
    count = parameter_count(model)

    def times(row: Preset) -> float:
        own = parameter_count(preset(row.name).model)
        return max(own, count) / min(own, count)

    return str(min(PRESETS, key=times).name)


def fine_tuning(model: ModelConfig) -> RunConfig:
    """A run that begins with a trained model: as the preset of its size, but gentle with what the weights know."""
    train = preset(preset_like(model)).train
    return RunConfig(model, train.replace(warmup=min(100, train.steps // 10), **FINE_TUNING))
