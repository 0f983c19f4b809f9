"""The command `tinygpt`: its groups, and how failures look from outside."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tinygpt import __version__
from tinygpt.cli.commands import (
    bench,
    capsule,
    compare,
    data,
    doctor,
    evaluate,
    files,
    look,
    lora,
    models,
    play,
    presets,
    program,
    runs,
    sample,
    serve,
    sweep,
    train,
)
from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.cli.output import process_rank
from tinygpt.cli.streams import prepare_streams
from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.terminal import one_line

CONTEXT = {"help_option_names": ["-h", "--help"]}


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
    cls=OneLineErrors,
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


app.command(epilog=train.EXAMPLES)(train.train)
app.command(epilog=sample.EXAMPLES)(sample.sample)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog=runs.EXAMPLES)(runs.runs)
app.command(epilog=models.EXAMPLES)(models.models)
app.command(epilog=sweep.EXAMPLES)(sweep.sweep)
app.command("eval", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=look.EXAMPLES)(look.look)
app.add_typer(lora.lora, name="lora")
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=capsule.CAPSULE_EXAMPLES)(capsule.capsule)
app.command("replay", epilog=capsule.REPLAY_EXAMPLES)(capsule.replay_command)
app.command(epilog=files.CONVERT_EXAMPLES)(files.convert)
app.command(epilog=files.INSPECT_EXAMPLES)(files.inspect)
app.add_typer(data.data, name="data")
app.command()(presets.presets)
app.command()(play.play)
app.command(epilog=program.EXAMPLES)(program.program)
app.command(epilog=bench.BENCH_EXAMPLES)(bench.bench)
app.command(epilog=bench.PARITY_EXAMPLES)(bench.parity)
app.command()(doctor.doctor)


def run() -> None:
    prepare_streams()
    app()
