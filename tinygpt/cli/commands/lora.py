"""`tinygpt lora`: small adapters for a model that stays as it is."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.assignments import parse_assignments
from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.going_on import going_on
from tinygpt.cli.models import MODEL_HELP, ModelPath, open_model, warn_of_left_out
from tinygpt.cli.options import engine_changes, option, with_settings
from tinygpt.cli.output import Output, size_of
from tinygpt.cli.watching import Watched, WatchEvery, watch_of
from tinygpt.core.config import LoraConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import ADAPTING
from tinygpt.engines.select import changed
from tinygpt.jobs.choices import Origin
from tinygpt.jobs.settings import read_settings
from tinygpt.store.naming import locate_adapter
from tinygpt.store.runs import RunFolder

lora = typer.Typer(help="LoRA: train a small adapter for a model, merge it, look at it.", no_args_is_help=True)

TRAIN_EXAMPLES = """Examples:

\b
  tinygpt lora train shakespeare-small --data moby-dick --out runs/whale --steps 300
  tinygpt lora train --resume runs/whale --steps 600
  tinygpt sample shakespeare-small --adapter runs/whale
  tinygpt compare shakespeare-small --adapter runs/whale --data moby-dick
  tinygpt lora merge shakespeare-small runs/whale out.tinygpt
"""
BaseModel = Annotated[
    Path | None, typer.Argument(metavar="MODEL", help=f"the model to adapt: {MODEL_HELP}", show_default=False)
]
AdapterArgument = Annotated[
    Path, typer.Argument(metavar="ADAPTER", help="a run of `lora train`, or a file that it wrote", show_default=False)
]


@lora.command(epilog=TRAIN_EXAMPLES)
@with_settings(LoraConfig, TrainConfig, batch="the model's", lr=f"{ADAPTING['lr']:g}")
def train(
    model: BaseModel = None,
    out: Annotated[
        Path | None, option("--out", help="folder of the run", default="runs/PRESET-lora-DATA-NUMBER", panel="Run")
    ] = None,
    resume: Annotated[
        Path | None, option("--resume", metavar="RUN", help="continue the run in this folder", panel="Run")
    ] = None,
    data: options.Data = None,
    file: options.TextFile = None,
    val_file: options.ValFile = None,
    val_data: options.ValData = None,
    budget: options.Budget = None,
    *,
    stated: options.Stated,
    assignments: Annotated[
        list[str] | None,
        option("--set", metavar="NAME=VALUE", help="any training setting; may be repeated", panel="Training"),
    ] = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    threads: options.Threads = None,
    json: options.Json = False,
    watch: Watched = None,
    watch_every: WatchEvery = None,
    quiet: options.Quiet = False,
) -> None:
    """Train adapters on another text: a run as `tinygpt train` makes them. The model itself is not changed."""
    from tinygpt.cli.training import execute
    from tinygpt.jobs.beginning import kept_name, new_adapter_job, open_base

    changes = {"model": {}, "sample": {}, **stated}
    for section, values in parse_assignments(assignments or []).items():
        changes[section].update(values)
    if changes["model"]:
        raise TinyGPTError(f"adapters leave the model as it is: leave {', '.join(changes['model'])} out of --set")
    machine = engine_changes(engine, device, precision, compile, threads)
    texts = TextFlags(data, file, budget, val_data, val_file)
    output = Output(json=json, quiet=quiet)
    with ExitStack() as held:
        if resume is not None:
            if out is not None:
                raise TinyGPTError(f"{resume} goes on in its own folder: leave out --out")
            if read_settings(RunFolder.open(resume).config).run.lora is None:
                raise TinyGPTError(f"{resume} trains a whole model: continue it with tinygpt train --resume {resume}")
            moved = None if model is None else Origin(kept_name(model))
            job = going_on(resume, changes, texts, output, held, moved)
        elif model is None:
            raise TinyGPTError("which model? Name the one to adapt, or a run to continue with --resume")
        else:
            base = open_base(Origin(kept_name(model)), output.warn)
            job = new_adapter_job(base, changes["lora"], changes, texts.on)
        settings = replace(job.settings, engine=changed(job.settings.engine, machine))
        execute(replace(job, settings=settings, watch=watch_of(watch, watch_every)), output, out)


@lora.command()
def merge(
    model: ModelPath,
    adapter: AdapterArgument,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="name.tinygpt or name.safetensors", show_default=False)
    ],
) -> None:
    """Write model and adapter as one plain model. (There is no way back but the base, which stays.)"""
    from tinygpt.store.formats import save_model

    if target.exists():
        raise TinyGPTError(f"{target} exists already: choose another name")
    save_model(target, open_model(model, adapter))
    Output().say(f"Wrote {target}.")


@lora.command()
def info(adapter: AdapterArgument) -> None:
    """What an adapter is for, and how it was trained."""
    from tinygpt.store.formats.adapter_file import load_adapter

    path = locate_adapter(adapter)
    found = load_adapter(path)
    warn_of_left_out(path, found.run)
    model, state, progress = found.run.config.model, found.run.state, found.run.progress
    rows = [
        ("adapter", f"{found.name}, {size_of(path.stat().st_size)}"),
        ("file", str(path)),
        ("for", f"{model.describe()}; weights sha256 {found.base_sha256[:16]}…"),
        ("rank", f"{found.lora.rank}, alpha {found.lora.alpha:g}, on {found.lora.targets}"),
        ("parameters", f"{state.w.size:,}"),
        ("trained", f"{state.step:,} steps on {found.run.data.get('name', 'an unnamed text')}"),
    ]
    if progress.best_val is not None:
        rows.append(("best val", f"{progress.best_val:.4f} at step {progress.best_step:,}"))
    Output().facts(rows)
