"""`tinygpt data`: the corpora there are, and their texts."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.corpora import choose_data, open_corpus
from tinygpt.cli.options import option
from tinygpt.cli.output import Output, size_of
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import exercises, is_task
from tinygpt.core.text import decode
from tinygpt.jobs.choices import DataChoice
from tinygpt.store.runs import writing
from tinygpt.terminal import printable

data = typer.Typer(help="Texts to train on: list them, look at one, fetch one.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="a name of `tinygpt data list`, or hf:owner/name[/config][:split][#column]".replace("[", "\\["),
        autocompletion=options.complete_corpus,
        show_default=False,
    ),
]


@data.command("list")
def list_all(json: options.Json = False) -> None:
    """All named corpora: assembled from packages, fetched from Hugging Face, or made up as a task to be scored."""
    from tinygpt.data import DEFAULT_CORPUS, list_corpora

    if json:
        typer.echo(jsonlib.dumps([asdict(info) for info in list_corpora()]))
        return
    texts, tasks = columns("name", "text", "size"), columns("task", "what is asked", "example")
    for info in list_corpora():
        name = Text.assemble((info.name, "bold"), " *") if info.name == DEFAULT_CORPUS else info.name
        if is_task(info.name):
            tasks.add_row(name, info.title, exercises(info.name).example())
        else:
            texts.add_row(name, info.title, info.size)
    output = Output()
    output.console.print(texts, "", tasks, sep="\n")
    output.say("\n* the default. More about one: tinygpt data show NAME")


def columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name)
    return table


@data.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="a corpus", autocompletion=options.complete_corpus)
    ] = None,
    file: options.TextFile = None,
    budget: options.Budget = None,
    length: Annotated[
        int, option("--bytes", help="how much of its beginning to show", default="600", panel=options.OUTPUT)
    ] = 600,
) -> None:
    """Size, origin and beginning of a text; fetches it if need be."""
    from tinygpt.data import list_corpora

    if length < 0:
        raise TinyGPTError(f"--bytes must be at least 0, not {length}")
    output = Output()
    choice = choose_data(DataChoice(), name, file, budget)
    corpus = open_corpus(choice, output)
    rows = [("name", corpus.name), ("size", f"{len(corpus.text):,} bytes"), ("sha256", corpus.sha256)]
    rows.append(("origin", corpus.description))
    for info in list_corpora():
        if info.name == corpus.name and file is None:
            rows += [("about", info.description), ("licence", info.licence)]
    output.facts(rows)
    output.say()
    output.say(printable(decode(corpus.text[:length])))


@data.command()
def fetch(
    name: Name,
    budget: options.Budget = None,
    refresh: Annotated[bool, option("--refresh", help="fetch anew, whatever is cached", panel=options.TEXT)] = False,
    out: Annotated[Path | None, option("--out", help="also write the text to this file", panel=options.OUTPUT)] = None,
) -> None:
    """Fetch a text into the cache, so that training starts at once."""
    output = Output()
    corpus = open_corpus(choose_data(DataChoice(), name, None, budget), output, refresh=refresh)
    output.say(f"{corpus.name}: {size_of(len(corpus.text))} ({corpus.description})")
    if out is not None:
        with writing(out):
            out.write_bytes(corpus.text)
        output.say(f"Wrote {out}.")
