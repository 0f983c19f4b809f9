"""`tinygpt play`: the page that trains in a browser tab, served from this machine."""

from __future__ import annotations

import signal
import webbrowser
from time import sleep
from typing import Annotated

import typer

from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.output import Output

DEFAULT_PORT = 8017
SECONDS = 0.1  # between two looks at whether it is to end


def play(
    port: Annotated[int, typer.Option(min=0, max=65535, help="where to serve; a free one near it if taken")] = (
        DEFAULT_PORT
    ),
    open: Annotated[bool, typer.Option("--open/--no-open", help="open a browser")] = True,
    isolated: Annotated[
        bool,
        typer.Option("--isolated/--not-isolated", help="send the headers that let the page share memory among threads"),
    ] = True,
) -> None:
    """Serve the page that trains in a browser tab; `make play` builds it first."""
    from tinygpt.serve.server import Site
    from tinygpt.site.build import DIST

    output = Output()
    with Site(DIST, port, isolated) as site:
        output.say(f"TinyGPT is at {site.url} (Ctrl-C ends it)")
        if open:
            webbrowser.open(site.url)
        with stop_signals() as stop:  # also where the caller ignores them, as a shell does in the background
            while not stop.wanted:
                sleep(SECONDS)
    if stop.number == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)
