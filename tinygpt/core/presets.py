"""Runs by name: a preset says how large, a recipe how it is trained. The only copy of every tuned number.

The numbers of `modern` come from sweeps: docs/quality.md has their commands.
"""

from collections import namedtuple

from tinygpt.core.config import LoraConfig, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.models.parameters import parameter_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Preset = namedtuple("Preset", ("name", "layers", "d_model", "heads", "ctx"))
# shared: settings that all its runs have; presets: by a preset's name, those that differ; short_texts: by a preset's
# name, those that a text of fewer bytes than that takes instead.
Recipe = namedtuple("Recipe", ("name", "help", "shared", "presets", "short_texts"))

PRESETS = (
    Preset("tiny", 2, 48, 3, 32),
    Preset("small", 3, 96, 3, 64),
    Preset("medium", 4, 128, 4, 96),
    Preset("large", 6, 192, 6, 128),
    Preset("xl", 8, 256, 8, 128),
    Preset("huge", 12, 256, 8, 256),
    Preset("massive", 14, 384, 12, 256),
    Preset("mega", 14, 384, 12, 512),
    Preset("behemoth", 24, 1280, 20, 512),
)
DEFAULT_PRESET = "small"
DEFAULT_CORPUS = "shakespeare-full"
# docs/lora.md and docs/cli.md#fine-tuning have the measurements that these come from.
ADAPTING = {"lr": 1e-3}  # adapters begin with nothing: what is gentle to a whole model teaches them little
# A text that they read more often than this they learn by heart. In fewer steps than that one sees no change.
MOST_PASSES, FEWEST_ADAPTING = 40, 100
FINE_TUNING = {"optimizer": "adamw", "lr": 2e-3, "schedule": "cosine", "min_lr": 2e-4}


def table(columns: str, *rows: "tuple[str | float, ...]") -> "dict[str, dict[str, str | float]]":
    """Settings by a preset's name, which stands first in its row."""
    names = columns.split()
    return {str(row[0]): {names[i]: row[1 + i] for i in range(len(names))} for row in rows}


CLASSIC = Recipe(
    "classic",
    "GPT-2's shape with AdamW at a constant rate: the one to learn from, and exact in Hugging Face's format",
    {},
    table(
        "batch steps",
        ("tiny", 16, 2000),
        ("small", 16, 1500),
        ("medium", 16, 1000),
        ("large", 12, 600),
        ("xl", 8, 400),
        ("huge", 8, 5000),
        ("massive", 4, 1000),
        ("mega", 8, 800),
        ("behemoth", 1, 50),
    ),
    {},
)
# The smaller a model, the more it gains by tables of the last bytes; from `huge` on they only help it to learn the text
# by heart, and so they do at any size where the text is short.
TABLES = "2,3,4,5"
ENOUGH_FOR_TABLES = 1_000_000  # bytes to train on
ENOUGH_WITHOUT_DROPOUT = 2_000_000
MODERN = Recipe(
    "modern",
    "what learns most in a given time: n-gram tables, Muon, rotary positions, normalised queries and keys, "
    "averaged weights",
    {
        "positions": "rotary",
        "qk_norm": "on",
        "optimizer": "muon",
        "momentum": 0.95,
        "schedule": "cosine",
        "warmup": 100,
        "average": 0.1,
        "windows": "shuffled",
    },
    table(
        "batch grad_accum steps lr min_lr matrix_lr dropout ngrams ngram_lr",
        ("tiny", 16, 1, 2000, 5e-3, 5e-4, 0.02, 0.0, TABLES, 0.12),
        ("small", 16, 1, 1500, 5e-3, 5e-4, 0.02, 0.0, TABLES, 0.12),
        ("medium", 16, 1, 1200, 3e-3, 3e-4, 0.02, 0.0, TABLES, 0.12),
        ("large", 12, 1, 1200, 2e-3, 2e-4, 0.02, 0.0, TABLES, 0.12),
        ("xl", 16, 1, 1000, 1e-3, 1e-4, 0.02, 0.0, TABLES, 0.06),
        ("huge", 8, 1, 4000, 1e-3, 1e-4, 0.02, 0.0, "", 0.06),
        ("massive", 8, 1, 4000, 1e-3, 1e-4, 0.02, 0.0, "", 0.06),
        ("mega", 8, 1, 2500, 1e-3, 1e-4, 0.02, 0.0, "", 0.06),
        ("behemoth", 1, 16, 1000, 5e-4, 5e-5, 0.02, 0.0, "", 0.06),
    ),
    {
        "tiny": (ENOUGH_FOR_TABLES, {"ngrams": ""}),
        "small": (ENOUGH_FOR_TABLES, {"ngrams": ""}),
        "medium": (ENOUGH_FOR_TABLES, {"ngrams": ""}),
        "large": (ENOUGH_FOR_TABLES, {"ngrams": ""}),
        "xl": (ENOUGH_FOR_TABLES, {"ngrams": ""}),
        "huge": (ENOUGH_WITHOUT_DROPOUT, {"dropout": 0.15}),
        "massive": (ENOUGH_WITHOUT_DROPOUT, {"dropout": 0.2}),
        "mega": (ENOUGH_WITHOUT_DROPOUT, {"dropout": 0.2}),
        "behemoth": (ENOUGH_WITHOUT_DROPOUT, {"dropout": 0.2}),
    },
)
RECIPES = (MODERN, CLASSIC)
DEFAULT_RECIPE = "modern"
WARMUP_SHARE = 10  # a run that is cut short warms up for at most a tenth of it


def preset_names() -> list[str]:
    return [preset.name for preset in PRESETS]


def recipe_names() -> list[str]:
    return [recipe.name for recipe in RECIPES]


# Lengths of a text that stand for its kind. The lines of a task may all be of one length, and windows side by side
# would all begin at the same place of a line: there they are drawn at random.
EXERCISES = 0
SHORT = 1


def tuned(name: str, recipe: str, train_bytes: "int | None" = None) -> "dict[str, str | float]":
    """All settings that a preset and a recipe state, by name, for a text of that length (None: a long one)."""
    if recipe not in recipe_names():
        raise TinyGPTError(f"there is no recipe '{recipe}'{instead(recipe, recipe_names())}")
    (chosen,) = [row for row in RECIPES if row.name == recipe]
    for row in PRESETS:
        if row.name == name:
            settings = {"layers": row.layers, "d_model": row.d_model, "heads": row.heads, "ctx": row.ctx}
            settings.update(chosen.shared)
            settings.update(chosen.presets[name])
            enough, instead_of_that = chosen.short_texts.get(name, (0, {}))
            if train_bytes is not None and train_bytes < enough:
                settings.update(instead_of_that)
            if train_bytes == EXERCISES and "windows" in settings:
                settings["windows"] = "random"
            return settings
    raise TinyGPTError(f"there is no preset '{name}'{instead(name, preset_names())}")


def cut_short(run: RunConfig, changes: "dict[str, Any]") -> RunConfig:
    """A run with other settings; where those make it shorter than its warm-up is meant for, with less of that."""
    changed = run.replace(**changes)
    if "warmup" in changes or changed.train.steps >= run.train.steps:
        return changed
    return changed.replace(warmup=min(changed.train.warmup, changed.train.steps // WARMUP_SHARE))


def preset(name: str, recipe: str = "classic", train_bytes: "int | None" = None) -> RunConfig:
    """The run that a preset's name stands for, on a text of that length (None: a long one)."""
    return RunConfig(ModelConfig(), TrainConfig()).replace(**tuned(name, recipe, train_bytes))


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


def recipe_like(run: RunConfig) -> str:
    """The recipe whose optimizer a run has."""
    for recipe in RECIPES:
        if recipe.shared.get("optimizer", TrainConfig().optimizer) == run.train.optimizer:
            return str(recipe.name)
    return str(CLASSIC.name)


def adapting(base: RunConfig, lora: LoraConfig, train_bytes: "int | None" = None) -> RunConfig:
    """A run that trains adapters on a model, in batches of as many windows as the model's own had, on a text of that
    length (None: a long one)."""
    run = RunConfig(base.model, TrainConfig(batch=base.train.batch, **ADAPTING), lora)
    return run if train_bytes is None else run.replace(steps=adapting_steps(run, train_bytes))


def adapting_steps(run: RunConfig, train_bytes: int) -> int:
    """How long adapters are trained on a text of that length, where nobody says."""
    tokens = run.train.batch * run.train.grad_accum * run.model.ctx
    return min(TrainConfig().steps, max(FEWEST_ADAPTING, MOST_PASSES * train_bytes // tokens))


def fine_tuning(model: ModelConfig, recipe: str) -> RunConfig:
    """A run that begins with a trained model: as the preset of its size, but gentle with what the weights know."""
    train = preset(preset_like(model), recipe, SHORT).train  # texts to learn besides are short
    return RunConfig(model, train.replace(warmup=min(100, train.steps // 10), **FINE_TUNING))
