"""`tinygpt lora`: small adapters for a model that stays as it is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinygpt.cli import options
from tinygpt.cli.adapters import execute, new_job, only_trainer, require_adapter_name, resumed_job
from tinygpt.cli.corpora import choose_data
from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.cli.models import ModelPath, open_model, warn_of_left_out
from tinygpt.cli.options import engine_changes, option, with_settings
from tinygpt.cli.output import Output, size_of
from tinygpt.cli.settings import parse_assignments
from tinygpt.core.config import LoraConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice

if TYPE_CHECKING:
    pass

lora = typer.Typer(help="LoRA: train a small adapter for a model, merge it, look at it.", no_args_is_help=True)

TRAIN_EXAMPLES = """Examples:

\b
  tinygpt lora train runs/small-shakespeare-1 --data moby-dick \\
      --out whale.safetensors --steps 300 --lr 1e-3
  tinygpt lora train runs/small-shakespeare-1 --resume whale.safetensors
  tinygpt compare runs/small-shakespeare-1 --adapter whale.safetensors
  tinygpt lora merge runs/small-shakespeare-1 whale.safetensors out.tinygpt
"""
AdapterFile = Annotated[Path, typer.Argument(metavar="ADAPTER", help="what `lora train` wrote", show_default=False)]


@lora.command(epilog=TRAIN_EXAMPLES)
@with_settings(LoraConfig, TrainConfig, batch="the model's")
def train(
    model: ModelPath,
    out: Annotated[Path | None, option("--out", help="the adapter's file, named .safetensors", panel="Run")] = None,
    resume: Annotated[Path | None, option("--resume", help="go on with the adapter in this file", panel="Run")] = None,
    data: options.Data = None,
    file: options.TextFile = None,
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
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train an adapter on another text; the model itself is not changed."""
    output = Output(json=json)
    extra = parse_assignments(assignments or [])
    for section in ("model", "sample"):
        for name in extra[section]:
            raise TinyGPTError(f"--set takes training settings here, and {section}.{name} is none")
    lora_changes, train_changes = stated["lora"], stated["train"] | extra["train"]

    target = resume if out is None else out
    if target is None or (out is not None and resume is not None):
        raise TinyGPTError("name the new adapter's file with --out, or the one to go on with by --resume")
    require_adapter_name(target, "--out" if resume is None else "--resume")
    machine = engine_changes(engine, device, precision, None, threads)
    with only_trainer(target):
        if resume is None:
            job = new_job(model, target, lora_changes, train_changes)
        else:
            job = resumed_job(model, target, lora_changes, train_changes, output)
        chosen = choose_data(job.data, data, file, budget)._replace(sha256=job.data.sha256)
        reason, progress = execute(job._replace(data=chosen), EngineChoice(**machine), output)

    output.say()
    if reason == "stopped":
        stated = {"engine" if name == "name" else name: value for name, value in machine.items()}
        flags = [word for name, value in stated.items() for word in (f"--{name}", str(value))]
        again = shlex.join(["tinygpt", "lora", "train", str(model), "--resume", str(job.out), *flags])
        output.hint(f"Stopped after step {progress.step:,} of {job.run.train.steps:,}; everything is saved.")
        output.hint(f"Go on with: {again}")
        output.require_stdout()
        raise typer.Exit(INTERRUPTED)
    best = progress.best_val
    measured = f", best validation loss {best:.4f}" if best is not None else ""
    output.say(f"Wrote {job.out} ({size_of(job.out.stat().st_size)}){measured}.")
    output.say(f"See what it does: {shlex.join(['tinygpt', 'compare', str(model), '--adapter', str(job.out)])}")
    output.require_stdout()


@lora.command()
def merge(
    model: ModelPath,
    adapter: AdapterFile,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="name.tinygpt or name.safetensors", show_default=False)
    ],
) -> None:
    """Write model and adapter as one plain model. (There is no way back but the base, which stays.)"""
    from tinygpt.formats import save_model

    if target.exists():
        raise TinyGPTError(f"{target} exists already: choose another name")
    save_model(target, open_model(model, adapter))
    Output().say(f"Wrote {target}.")


@lora.command()
def info(adapter: AdapterFile) -> None:
    """What an adapter is for, and how it was trained."""
    from tinygpt.formats.adapter_file import load_adapter

    found = load_adapter(adapter)
    warn_of_left_out(adapter, found.run)
    model, state, progress = found.run.config.model, found.run.state, found.run.progress
    rows = [
        ("adapter", f"{found.name}, {size_of(adapter.stat().st_size)}"),
        ("for", f"{model.describe()}; weights sha256 {found.base_sha256[:16]}…"),
        ("rank", f"{found.lora.rank}, alpha {found.lora.alpha:g}, on {found.lora.targets}"),
        ("parameters", f"{state.w.size:,}"),
        ("trained", f"{state.step:,} steps on {found.run.data.get('name', 'an unnamed text')}"),
    ]
    if progress.best_val is not None:
        rows.append(("best val", f"{progress.best_val:.4f} at step {progress.best_step:,}"))
    Output().facts(rows)
