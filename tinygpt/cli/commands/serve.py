"""`tinygpt serve`: models behind the OpenAI completions API, on this machine."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.models import MODEL_HELP, merged, on_engine, open_model, or_newest
from tinygpt.cli.options import engine_changes, option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.linear import FEW_ROWS
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice

if TYPE_CHECKING:
    from tinygpt.core.run.contract import Engine
    from tinygpt.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt serve shakespeare-huge
  tinygpt serve shakespeare-small mine=runs/small-notes-1 --rows 12
  tinygpt serve shakespeare-small --adapter whale=shakespeare-small+whale.safetensors
  curl localhost:8018/v1/completions -d '{"model": "shakespeare-huge", "prompt": "HAMLET."}'
"""
DEFAULT_PORT = 8018
LOOPBACK = "127.0.0.1"
SERVING = "Serving"


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
        str, option("--host", help="where to listen; unless told, only this machine is heard", panel=SERVING)
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="a free one near it if taken", rich_help_panel=SERVING)
    ] = DEFAULT_PORT,
    rows: Annotated[
        int, typer.Option(min=1, max=FEW_ROWS - 1, help="texts that a model writes at once", rich_help_panel=SERVING)
    ] = 8,
    most: Annotated[
        int, typer.Option(min=1, help="texts that a model may have, waiting ones too", rich_help_panel=SERVING)
    ] = 256,
    engine: options.EngineName = None,
    device: options.Device = None,
    threads: options.Threads = None,
    quiet: Annotated[bool, option("--quiet", help="no line per request", panel=SERVING)] = False,
) -> None:
    """Answer OpenAI's completions and chat requests with models of ours; a page at / tries them."""
    from tinygpt.server import NAMES, listen, quiet_server
    from tinygpt.serving.app import api_app
    from tinygpt.serving.writer import Writer

    output = Output()
    choice = EngineChoice(**engine_changes(engine, device, threads=threads))
    served = named_models(models or [str(or_newest(None))], adapter or [])
    with ExitStack() as held:
        writers = {}
        for name, checkpoint in served.items():
            opened = partial(open_engine, checkpoint, choice)
            writers[name] = Writer(name, opened, min(rows, most), most)
            writers[name].open()
            held.callback(writers[name].close)
            output.say(f"{name}: {checkpoint.config.model.describe()}, on {writers[name].description}")
        socket = held.enter_context(listen(port, host))
        url = f"http://{host}:{socket.getsockname()[1]}"
        output.say(f"Serving at {url}/v1, with a page at {url}/ (Ctrl-C ends it)")
        hosts = NAMES if host == LOOPBACK else ["*"]
        quiet_server(api_app(writers, (lambda line: None) if quiet else output.say, hosts)).run([socket])


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
