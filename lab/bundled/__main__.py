"""Makes the models that come with the package.

python -m lab.bundled make [NAME ...]       trains and packs them, all or some: what `make models` does
python -m lab.bundled train [NAME ...]      only trains: runs/zoo/NAME, which goes on where it was stopped
python -m lab.bundled pack RUN NAME         makes NAME.tinygpt and its card of a finished run
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.bundled.packing import pack
from lab.bundled.table import command_of, planned
from lab.bundled.table import names as planned_names
from tinygpt.cli import options
from tinygpt.cli.app import CONTEXT, OneLineErrors
from tinygpt.cli.commands.evaluate import exact_choice
from tinygpt.cli.output import Output, size_of
from tinygpt.core.errors import TinyGPTError
from tinygpt.jobs.resuming import why_ended
from tinygpt.jobs.settings import read_settings
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import load_tinygpt
from tinygpt.store.runs import RunFolder

RUNS = Path("runs/zoo")

app = typer.Typer(cls=OneLineErrors, context_settings=CONTEXT, no_args_is_help=True, pretty_exceptions_enable=False)
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="models of lab/bundled/table.py; none: all")]


@app.command()
def make(
    names: Names = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Train and pack."""
    for name in chosen_names(names):
        train_one(name, engine, device, threads)
        pack_one(RUNS / name, name, engine, device, threads)


@app.command()
def train(
    names: Names = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Train, each in a folder of its own."""
    for name in chosen_names(names):
        train_one(name, engine, device, threads)


@app.command("pack")
def pack_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a finished run")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="what the model is to be called")],
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Write the model in float16, measure it, and write its card."""
    pack_one(run, name, engine, device, threads)


def chosen_names(names: list[str] | None) -> list[str]:
    return [planned(name).name for name in names] if names else planned_names()


def train_one(name: str, engine: str | None, device: str | None, threads: int | None) -> None:
    """A process per model: whatever it leaves behind is gone with it."""
    folder = RunFolder(RUNS / name)
    if folder.config.is_file():
        if finished(folder):
            Output().say(f"{name} is trained: {folder.path}")
            return
        flags = ["--resume", str(folder.path)]
    else:
        flags = [*command_of(planned(name).settings()), "--out", str(folder.path)]
    for flag, value in (("--engine", engine), ("--device", device), ("--threads", threads)):
        flags += [] if value is None else [flag, str(value)]
    command = [sys.executable, "-m", "tinygpt", "train", *flags]
    Output().say(f"{name}: {' '.join(command[2:])}")
    if status := subprocess.run(command, check=False).returncode:
        raise typer.Exit(status)


def finished(folder: RunFolder) -> bool:
    train = read_settings(folder.config).run.train
    return not folder.never_saved() and bool(why_ended(train, load_tinygpt(folder.checkpoint("last")).progress))


def pack_one(run: Path, name: str, engine: str | None, device: str | None, threads: int | None) -> None:
    if not finished(RunFolder.open(run)):
        raise TinyGPTError(f"{run} is not finished: go on with it by `tinygpt train --resume {run}`")
    output = Output()
    card = pack(run, name, exact_choice(engine, device, threads), output)
    if not card["corpus"]["licence"]:
        output.warn(f"nothing is known of the licence of {card['corpus']['name']}: may the model be given to others?")
    output.say(f"Wrote {zoo.FOLDER / name}.tinygpt ({size_of(card['bytes'])}) and its card: tinygpt models {name}")


if __name__ == "__main__":
    app()
