"""Homework: a folder of capsules, a stretch of each trained again, in one table."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from tinygpt.cli.commands.capsule import EXIT_CODES, engine_for, own_text, read_from, replay_on, training_part
from tinygpt.cli.corpora import choose_data
from tinygpt.cli.output import Output
from tinygpt.core.capsule.compare import stretch
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError

GRADED_STEPS = 50  # of each capsule, unless --steps says more
LAST_LOSSES = 20  # whose mean the table shows


def grade(folder: Path, steps: int | None, texts: Any, changes: dict[str, Any], json: bool) -> None:
    """A stretch of every capsule in a folder and those below it, one after the other; what cannot be read or replayed
    says why."""
    output = Output(json=json)
    rows = []
    for file in sorted(folder.rglob("*.json")):
        row = graded(file, str(file.relative_to(folder)), steps, texts, changes, output)
        rows.append(row)
        if json:
            typer.echo(jsonlib.dumps(row))
    if not rows:
        raise TinyGPTError(f"{folder} has no capsules: they are .json files, as tinygpt capsule RUN makes them")
    if not json:
        show_grades(rows, output)
    raise typer.Exit(max(row["exit"] for row in rows))


def graded(
    file: Path, name: str, steps: int | None, texts: Any, changes: dict[str, Any], output: Output
) -> dict[str, Any]:
    row: dict[str, Any] = {"capsule": name, "title": "", "text": "", "steps": 0, "loss": None}
    try:
        stated = read_from(file)
        last = stretch(stated, 0, min(steps or GRADED_STEPS, stated.steps))
        row |= {"title": stated.title, "text": stated.text.name, "steps": stated.steps}
        row["loss"] = sum(stated.losses[-LAST_LOSSES:]) / len(stated.losses[-LAST_LOSSES:])
        trained = training_part(stated, choose_data(own_text(stated), *texts), output)
        player, _ = engine_for(stated, changes, last)
        try:
            run_now(player.load_corpus(trained, b""))
            verdict = replay_on(player, stated, 0, last, output).verdict
        finally:
            run_now(player.close())
    except TinyGPTError as fault:
        return row | {"verdict": "not replayed", "why": str(fault), "exit": 1}
    return row | {
        "verdict": verdict.verdict,
        "why": f"{verdict.head} {verdict.text}",
        "exit": EXIT_CODES[verdict.verdict],
    }


def show_grades(rows: list[dict[str, Any]], output: Output) -> None:
    """The lowest loss first, for each text."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for title in ("capsule", "run", "text", "steps", "loss", "replayed"):
        table.add_column(title, overflow="fold")
    for row in sorted(rows, key=lambda row: (row["text"], row["loss"] is None, row["loss"] or 0.0)):
        loss = "" if row["loss"] is None else f"{row['loss']:.4f}"
        table.add_row(row["capsule"], row["title"], row["text"], f"{row['steps']:,}", loss, row["why"])
    output.console.print(table)
