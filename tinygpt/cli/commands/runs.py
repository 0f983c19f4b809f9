"""`tinygpt runs`: what was trained here, and the curves over one another."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.charts import Points, overlay
from tinygpt.cli.display import duration
from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import DEFAULT_RECIPE
from tinygpt.jobs.settings import TrainSettings, read_settings
from tinygpt.store.runs import RUNS, RunFolder, runs_in

EXAMPLES = """Examples:

\b
  tinygpt runs                                  all runs below runs/, newest first
  tinygpt runs runs/small-* --plot curves.png   their losses in one picture
  tinygpt runs --json | jq .best_val
"""
STYLES = ("bright_blue", "dark_orange", "green3", "magenta", "medium_purple", "cyan")
CHART_HEIGHT = 12
UNKNOWN = "–"
DAY = 86400


class Told(NamedTuple):
    """A run, in what its folder says."""

    folder: RunFolder
    settings: TrainSettings
    metrics: list[dict[str, Any]]
    training: bool

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.metrics if event["event"] == kind]

    @property
    def step(self) -> int:
        return max((event["step"] for event in self.metrics), default=0)

    @property
    def state(self) -> str:
        if self.training:
            return "training"
        return "finished" if self.step >= self.settings.run.train.steps else "stopped"

    def curve(self) -> Points:
        """Its validations; of a run that has none, its steps."""
        validations = [(event["step"], event["val_loss"]) for event in self.of("eval")]
        return validations or [(event["step"], event["loss"]) for event in self.of("step")]

    def facts(self) -> dict[str, Any]:
        validations = self.of("eval")
        best = min(validations, key=lambda event: event["val_loss"], default=None)
        exams = self.of("exam")
        return {
            "run": str(self.folder.path),
            "state": self.state,
            "preset": self.settings.preset,
            "recipe": self.settings.recipe,
            "text": self.settings.data.title(),
            "step": self.step,
            "steps": self.settings.run.train.steps,
            "best_val": None if best is None else best["val_loss"],
            "best_step": None if best is None else best["step"],
            "accuracy": exams[-1]["accuracy"] if exams else None,
            "seconds": round(sum(event["seconds"] for event in self.of("session")), 3),
            "changed": round(self.folder.changed(), 3),
        }


def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER", help="runs, or folders of runs", show_default=False)
    ] = None,
    plot: Annotated[Path | None, option("--plot", help="draw their curves to this file", panel=options.OUTPUT)] = None,
    json: options.Json = False,
) -> None:
    """What was trained here, newest first, and the curves over one another."""
    if plot is not None:
        from tinygpt.plots import require_picture

        require_picture(plot)
    output = Output(json=json)
    found = [told for folder in folders or [RUNS] for told in told_of(folder, output)]
    if not found and not json:
        output.say(f"There are no runs in {', '.join(map(str, folders or [RUNS]))} yet. Make one: tinygpt train")
        return
    for told in found:
        if json:
            typer.echo(jsonlib.dumps(told.facts()))
    show(output, found)
    curves = [(str(told.folder.path), told.curve()) for told in found if told.curve()]
    if plot is not None and curves:
        from tinygpt.plots import save_overlay

        save_overlay(plot, "validation losses", curves)
        output.say(f"\nThe curves are in {plot}.")


def told_of(folder: Path, output: Output) -> list[Told]:
    if not folder.is_dir() and folder != RUNS:
        raise TinyGPTError(f"{folder}: there is no such folder")
    read = []
    for run in runs_in(folder):
        try:
            read.append(Told(run, read_settings(run.config), run.read_metrics(), run.in_use()))
        except TinyGPTError as fault:
            output.warn(f"{run.path} is left out: {fault}")
    return read


def show(output: Output, found: list[Told]) -> None:
    """The table; the first few runs have colours, which are those of the chart below it."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    for heading in ("model", "text"):
        table.add_column(heading)
    examined = any(told.of("exam") for told in found)
    for heading in ("step", "best val", *(["right"] if examined else []), "time", "when"):
        table.add_column(heading, justify="right", no_wrap=True)
    drawn: list[tuple[Points, str]] = []
    for told in found:
        facts = told.facts()
        style = STYLES[len(drawn)] if told.curve() and len(drawn) < len(STYLES) else ""
        if style:
            drawn.append((told.curve(), style))
        right = UNKNOWN if facts["accuracy"] is None else f"{100 * facts['accuracy']:.0f} %"
        table.add_row(
            Text(facts["run"], style=style),
            facts["preset"] + ("" if facts["recipe"] == DEFAULT_RECIPE else f", {facts['recipe']}"),
            facts["text"],
            f"{facts['step']:,}" + ("" if told.state == "finished" else f"/{facts['steps']:,} {told.state}"),
            UNKNOWN if facts["best_val"] is None else f"{facts['best_val']:.4f}",
            *([right] if examined else []),
            duration(facts["seconds"]) if facts["seconds"] else UNKNOWN,
            ago(time.time() - facts["changed"]),
        )
    output.console.print(table)
    if len(drawn) > 1:
        output.say()
        for row in overlay(drawn, min(output.console.width, 100), CHART_HEIGHT):
            output.say(row)


def ago(seconds: float) -> str:
    for length, unit in ((DAY, "days"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"
