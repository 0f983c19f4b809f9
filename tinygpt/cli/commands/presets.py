"""`tinygpt presets`: the sizes to choose from."""

from __future__ import annotations

import json as jsonlib

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.output import Output, size_of
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import DEFAULT_PRESET, PRESETS, preset

BYTES_PER_PARAMETER = 4  # float32
COLUMNS = ("layers", "d_model", "heads", "ctx", "batch", "steps")


def presets(json: options.Json = False) -> None:
    """The presets of `train --preset`, with their parameters and file sizes."""
    counts = {row.name: parameter_count(preset(row.name).model) for row in PRESETS}
    if json:
        rows = [{**row._asdict(), "parameters": counts[row.name]} for row in PRESETS]
        typer.echo(jsonlib.dumps({"default": DEFAULT_PRESET, "presets": rows}))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("preset")
    for name in (*COLUMNS, "parameters", "file"):
        table.add_column(name, justify="right")
    for row in PRESETS:
        weights = BYTES_PER_PARAMETER * counts[row.name]
        numbers = [f"{getattr(row, name):,}" for name in COLUMNS]
        shown = Text.assemble((row.name, "bold"), " *") if row.name == DEFAULT_PRESET else row.name
        table.add_row(shown, *numbers, f"{counts[row.name]:,}", size_of(weights))
    output = Output()
    output.console.print(table)
    output.say("\n* the default. A checkpoint of a run also has AdamW's two moments: three times the file.")
