"""`tinygpt push`: a model on the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.models import ModelPath, name_of, open_model
from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError

if TYPE_CHECKING:
    from tinygpt.store.formats import Checkpoint

EXAMPLES = """Examples:

\b
  tinygpt push runs/small-shakespeare-1 me/small-shakespeare
  tinygpt push runs/diary me/diary --private --licence mit
  tinygpt sample hf:me/small-shakespeare -i
"""


def push(
    model: ModelPath,
    repo: Annotated[str, typer.Argument(metavar="USER/NAME", help="where on the Hub", show_default=False)],
    title: Annotated[
        str, option("--title", help="what its card calls it", default="MODEL's name", panel=options.OUTPUT)
    ] = "",
    licence: Annotated[
        str,
        option("--licence", help="licence of the text it learned from", default="as known", panel=options.OUTPUT),
    ] = "",
    private: Annotated[bool, option("--private", help="for you alone", panel=options.OUTPUT)] = False,
) -> None:
    """Publish a model on the Hugging Face Hub: its weights, and a card with a sample, its losses and its recipe. The
    text it learned from stays here. Sign in with `hf auth login`, or set HF_TOKEN."""
    from tinygpt.store import hub

    checkpoint = open_model(model)
    called = title or name_of(model)
    address = hub.push(
        repo, checkpoint, called, licence or known_licence(checkpoint.text_name), curve_of(checkpoint, called), private
    )
    output = Output()
    output.say(f"Published at {address}.")
    output.say(f"Use it with: tinygpt sample hf:{hub.parsed(repo)[0]}")


def known_licence(text: str) -> str:
    from tinygpt.data import corpus_info

    try:
        return corpus_info(text).licence if text else ""
    except TinyGPTError:
        return ""


def curve_of(checkpoint: Checkpoint, title: str) -> bytes:
    """The losses as a picture; nothing where the file has none."""
    from tinygpt.plots import save_loss_plot

    points = checkpoint.progress.history.points
    if len(points) < 2:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        save_loss_plot(Path(folder) / "loss.png", title, points, ())
        return (Path(folder) / "loss.png").read_bytes()
