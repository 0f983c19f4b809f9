"""Models that are there already, with or without an adapter, ready to compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice, make_engine, settle
from tinygpt.store.naming import load_model, locate_adapter, tell_left_out
from tinygpt.store.runs import RUNS, newest_run

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.engines.auto import Work
    from tinygpt.store.formats import Checkpoint

MODEL_HELP = (
    "a run folder (its best checkpoint; RUN@last and RUN@500 are others), a .tinygpt or .safetensors file, "
    "a page of one file, a Hugging Face folder, hf:user/name on the Hub, or a name of `tinygpt models`"
)

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP, show_default=False)]
NewestModelPath = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help=f"{MODEL_HELP} [dim]\\[default: the newest run][/dim]", show_default=False),
]
AdapterPath = Annotated[
    Path | None,
    option("--adapter", help="put this LoRA adapter on the model: a file, or a run of `lora train`", panel="Model"),
]


def or_newest(path: Path | None) -> Path:
    """The model that is named, or the run in runs/ that was written to last."""
    if path is not None:
        return path
    run = newest_run(RUNS)
    if run is None:
        raise TinyGPTError(f"which model? There is no run in {RUNS}/ yet: train one, or take one of `tinygpt models`")
    return run.path


def name_of(source: Path) -> str:
    """What a model is called by whoever names it: a checkpoint by its run."""
    name = source.name.partition("@")[0]
    return name.removesuffix(source.suffix) if source.is_file() else name


def open_model(path: Path, adapter: Path | None = None) -> Checkpoint:
    """The model that `path` stands for; an adapter is merged into its weights."""
    checkpoint = load_model(path)
    warn_of_left_out(path, checkpoint)
    return checkpoint if adapter is None else merged(checkpoint, adapter)


def warn_of_left_out(path: Path, checkpoint: Checkpoint) -> None:
    tell_left_out(path, checkpoint, Output().warn)


def merged(base: Checkpoint, adapter_path: Path) -> Checkpoint:
    """The plain model that base and adapter make together. Its optimizer state is gone."""
    from tinygpt.store.formats import adapter_file

    adapter = adapter_file.load_adapter(locate_adapter(adapter_path))
    warn_of_left_out(adapter_path, adapter.run)
    return adapter_file.merged(base, adapter, base)


def on_engine(checkpoint: Checkpoint, choice: EngineChoice, work: Work) -> tuple[Engine, str]:
    """To sample from or to measure, and what to say of it: what the optimizer keeps stays behind."""
    from tinygpt.store.formats.checkpoint import weights_alone

    choice, why = settle(choice, checkpoint.config, work)
    engine = make_engine(checkpoint.config, choice, weights_alone(checkpoint).state)
    return engine, with_reason(engine, why)


def with_reason(engine: Engine, why: str) -> str:
    """The engine in words; where it was left to us, why it is that one."""
    return f"{engine.describe()} ({why})" if why else engine.describe()
