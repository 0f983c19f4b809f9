"""`tinygpt presets`: the sizes to choose from."""

from __future__ import annotations

import json as jsonlib

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.output import Output, size_of
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.optimizers import slot_names
from tinygpt.core.presets import DEFAULT_PRESET, DEFAULT_RECIPE, PRESETS, preset, tuned

BYTES_PER_PARAMETER = 4  # float32
COLUMNS = ("layers", "d_model", "heads", "ctx", "batch", "steps")


def presets(recipe: options.Recipe = None, json: options.Json = False) -> None:
    """The presets of `train --preset` as a recipe trains them, with their parameters and file sizes."""
    recipe = recipe or DEFAULT_RECIPE
    runs = {row.name: preset(row.name, recipe) for row in PRESETS}
    counts = {name: parameter_count(run.model) for name, run in runs.items()}
    if json:
        rows = [{"name": name, **tuned(name, recipe), "parameters": counts[name]} for name in runs]
        typer.echo(jsonlib.dumps({"default": DEFAULT_PRESET, "recipe": recipe, "presets": rows}))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("preset")
    for name in (*COLUMNS, "parameters", "file"):
        table.add_column(name, justify="right")
    for row in PRESETS:
        weights = BYTES_PER_PARAMETER * counts[row.name]
        values = runs[row.name].values()
        numbers = [
            options.shown(values[name]) if isinstance(values[name], float) else f"{values[name]:,}" for name in COLUMNS
        ]
        shown = Text.assemble((row.name, "bold"), " *") if row.name == DEFAULT_PRESET else row.name
        table.add_row(shown, *numbers, f"{counts[row.name]:,}", size_of(weights))
    output = Output()
    output.console.print(table)
    arrays = 1 + len(slot_names(preset(DEFAULT_PRESET, recipe).train))
    output.say(f"\n* the default. A checkpoint of a run also has what training keeps: {arrays} times the file.")
