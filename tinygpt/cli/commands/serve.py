"""`tinygpt serve`: models behind the OpenAI completions API, on this machine."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.models import MODEL_HELP, merged, on_engine, open_model, or_newest
from tinygpt.cli.options import engine_changes, option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.linear import FEW_ROWS
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.serve.writer import Writer
    from tinygpt.store.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt serve shakespeare-huge
  tinygpt serve shakespeare-small mine=runs/small-notes-1 --rows 12
  tinygpt serve shakespeare-small --adapter whale=shakespeare-small+whale.safetensors
  curl localhost:8018/v1/completions --json '{"model": "shakespeare-huge", "prompt": "HAMLET."}'
"""
DEFAULT_PORT = 8018
LOOPBACK = "127.0.0.1"
KEY_VARIABLE = "TINYGPT_API_KEY"
SERVING = "Serving"
POLL_S = 0.1
GRACE_S = 5.0  # for texts under way when the server is told to end; Ctrl-C ends them at once
CLOSING_S = 5  # for their last events to reach the clients
SPARE_CONNECTIONS = 100  # beyond those whose texts are being written or wait


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL...",
            help=f"{MODEL_HELP}; NAME is what clients call it [dim]\\[default: the newest run][/dim]",
            show_default=False,
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        option("--adapter", help="NAME=MODEL+ADAPTER: serve a LoRA adapter on a model; repeatable", panel="Model"),
    ] = None,
    host: Annotated[
        str, option("--host", help="address to listen on; 127.0.0.1 is this machine alone", panel=SERVING)
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="a free one near it if taken", rich_help_panel=SERVING)
    ] = DEFAULT_PORT,
    rows: Annotated[
        int, typer.Option(min=1, max=FEW_ROWS - 1, help="texts that a model writes at once", rich_help_panel=SERVING)
    ] = 8,
    most: Annotated[
        int, typer.Option(min=1, help="maximum queued and active texts per model", rich_help_panel=SERVING)
    ] = 256,
    api_key: Annotated[
        str | None,
        option(
            "--api-key",
            help=f"require this key from clients, as a bearer token; {KEY_VARIABLE} sets it unseen by others",
            panel=SERVING,
            envvar=KEY_VARIABLE,
            show_envvar=False,
        ),
    ] = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
    quiet: Annotated[bool, option("--quiet", help="no line per request", panel=SERVING)] = False,
) -> None:
    """Serve models through an OpenAI-compatible API; includes a web playground at /."""
    from tinygpt.serve.app import api_app
    from tinygpt.serve.connections import Limits
    from tinygpt.serve.server import NAMES, in_url, is_loopback, listen, quiet_server, running
    from tinygpt.serve.writer import Writer

    check_key(api_key)
    output = Output()
    choice = EngineChoice(**engine_changes(engine, device, threads=threads))
    served = named_models(models or [str(or_newest(None))], adapter or [])
    with ExitStack() as held:
        writers = {}
        for name, checkpoint in served.items():
            opened = partial(open_engine, checkpoint, choice)
            writers[name] = Writer(name, opened, min(rows, most), most, output.warn, text_name=checkpoint.text_name)
            writers[name].open()
            held.callback(writers[name].close)
            output.say(f"{name}: {checkpoint.config.model.describe()}, on {writers[name].description}")
        socket = held.enter_context(listen(port, host))
        url = f"http://{in_url(host)}:{socket.getsockname()[1]}"
        output.say(f"Serving at {url}/v1, with a page at {url}/ (Ctrl-C ends it)")
        if not is_loopback(socket) and not api_key:
            output.warn(f"anyone who can reach {host} may use these models: set {KEY_VARIABLE} to require a key")
        hosts = [*NAMES, in_url(host)] if is_loopback(socket) else ["*"]
        app = api_app(writers, (lambda line: None) if quiet else output.say, hosts, api_key)
        limits = Limits(SPARE_CONNECTIONS + most * len(writers), closing_s=CLOSING_S)
        with running(quiet_server(app, limits), socket) as thread:
            asked = wait_for_end(thread, list(writers.values()))
    for writer in writers.values():
        if writer.fault is not None:
            raise writer.fault
    if asked == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


def check_key(key: str | None) -> None:
    if key is not None and not (key.isascii() and key.isprintable() and key.split() == [key]):
        raise TinyGPTError("--api-key takes ASCII letters, digits and signs, without spaces; for example $(uuidgen)")


def wait_for_end(thread: Thread, writers: list[Writer]) -> int:
    """Until a signal asks for it, or an engine cannot be opened any more: then no more requests are taken, and the
    texts under way are finished or ended with an error. The number of the signal."""
    with stop_signals() as stop:
        while not stop.wanted and thread.is_alive() and not any(writer.fault for writer in writers):
            sleep(POLL_S)  # which Ctrl-C ends on every system, as it does not a lock
        for writer in writers:
            writer.stop(0.0 if stop.number == signal.SIGINT else GRACE_S)
        try:
            for writer in writers:
                writer.close()
        except KeyboardInterrupt:  # a second signal does not wait
            for writer in writers:
                writer.stop()
            raise
    return stop.number


def open_engine(checkpoint: Checkpoint, choice: EngineChoice) -> Engine:
    engine, _ = on_engine(checkpoint, choice, Work())
    return engine


def named_models(models: list[str], adapters: list[str]) -> dict[str, Checkpoint]:
    """By the names that clients use."""
    served: dict[str, Checkpoint] = {}
    for stated in models:
        name, _, path = stated.rpartition("=")
        add(served, name or title(path), open_model(Path(path)))
    for stated in adapters:
        name, equals, rest = stated.partition("=")
        model, plus, file = rest.partition("+")
        if not (name and equals and model and plus and file):
            raise TinyGPTError(f"--adapter takes NAME=MODEL+ADAPTER, not '{stated}'")
        add(served, name, merged(served.get(model) or open_model(Path(model)), Path(file)))
    return served


def add(served: dict[str, Checkpoint], name: str, checkpoint: Checkpoint) -> None:
    if name in served:
        raise TinyGPTError(f"two models are called '{name}': give one of them another name, as in other=MODEL")
    served[name] = checkpoint


def title(path: str) -> str:
    """Of runs/small-1 and of runs/small-1@last the folder's name, of a file its name without its ending."""
    name = Path(path).name
    return Path(name).stem if Path(path).is_file() else name
