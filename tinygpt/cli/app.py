"""The command `tinygpt`: its groups, and how failures look from outside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tinygpt import __version__
from tinygpt.cli.help import arranged
from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.cli.output import process_rank
from tinygpt.cli.streams import prepare_streams
from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.terminal import one_line

CONTEXT = {"help_option_names": ["-h", "--help"]}
# In the order of the help: the module of a command, its function or its group of commands, and its examples.
COMMANDS = {
    "train": ("train", "train", "EXAMPLES"),
    "sample": ("sample", "sample", "EXAMPLES"),
    "serve": ("serve", "serve", "EXAMPLES"),
    "runs": ("runs", "runs", "EXAMPLES"),
    "models": ("models", "models", "EXAMPLES"),
    "sweep": ("sweep", "sweep", "EXAMPLES"),
    "eval": ("evaluate", "evaluate", "EXAMPLES"),
    "look": ("look", "look", "EXAMPLES"),
    "compare": ("compare", "compare", "EXAMPLES"),
    "capsule": ("capsule", "capsule", "CAPSULE_EXAMPLES"),
    "replay": ("capsule", "replay_command", "REPLAY_EXAMPLES"),
    "convert": ("files", "convert", "CONVERT_EXAMPLES"),
    "push": ("push", "push", "EXAMPLES"),
    "inspect": ("files", "inspect", "INSPECT_EXAMPLES"),
    "presets": ("presets", "presets", ""),
    "play": ("play", "play", ""),
    "program": ("program", "program", "EXAMPLES"),
    "gradients": ("gradients", "gradients", "EXAMPLES"),
    "edits": ("edits", "edits", "EXAMPLES"),
    "bench": ("bench", "bench", "BENCH_EXAMPLES"),
    "parity": ("bench", "parity", "PARITY_EXAMPLES"),
    "doctor": ("doctor", "doctor", ""),
    "lora": ("lora", "lora", ""),
    "data": ("data", "data", ""),
}


class Commands(Mapping[str, Any]):
    """Each command by its name, made when it is first asked for: to make all of them takes longer than most of what
    they do."""

    made: dict[str, Any] = {}  # noqa: RUF012 - one for all

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = made_command(name, *COMMANDS[name])
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def made_command(name: str, module: str, part: str, examples: str) -> Any:
    home = import_module(f"tinygpt.cli.commands.{module}")
    found, alone = getattr(home, part), typer.Typer(rich_markup_mode="rich")
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name, epilog=getattr(home, examples) if examples else None)(found)
    return arranged(name, typer.main.get_group(alone).commands[name])


class OneLineErrors(TyperGroup):
    """What the user can act on is one line on stderr and status 1. A bug keeps its traceback."""

    def main(self, *arguments: Any, **more: Any) -> Any:
        try:
            return super().main(*arguments, **more)
        except (TinyGPTError, OSError) as fault:
            if os.environ.get("TINYGPT_DEBUG"):
                raise
            fail(sentence(fault))
        except MemoryError:
            fail("there is not enough memory for this; use a smaller preset, batch or ctx")

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as fault:
            keep_likely_options(fault)
            raise


class TinyGPT(OneLineErrors):
    """All commands, each made when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]  # nobody adds to them

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


def keep_likely_options(fault: Any) -> None:
    """Of the options that typer would suggest for an unknown one, leave those that may have been meant."""
    if getattr(fault, "possibilities", None):
        word = fault.option_name.lstrip("-")
        fault.possibilities = [name for name in fault.possibilities if nearest(word, [name.lstrip("-")])]


def sentence(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return " ".join(str(fault).split())


def fail(text: str) -> NoReturn:
    rank = process_rank()
    with suppress(OSError):  # the terminal may be gone
        sys.stderr.write(f"error: {f'[process {rank}] ' if rank else ''}{one_line(text)}\n")
    sys.exit(1)


app = typer.Typer(
    name="tinygpt",
    cls=TinyGPT,
    no_args_is_help=True,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tinygpt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train a byte-level GPT from scratch, and look at every part of it.

    \b
    Start here:
      tinygpt train                                train on Shakespeare
      tinygpt sample runs/small-shakespeare-1      let it write
      tinygpt doctor                               what this machine can run
    """


def run() -> None:
    prepare_streams()
    app()
