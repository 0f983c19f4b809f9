"""`tinygpt lora`: small adapters for a model that stays as it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tinygpt.cli import options
from tinygpt.cli.corpora import OF_RESUMED, choose_data, open_corpus, pinned
from tinygpt.cli.hosts import ScreenHost, timestamp
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.models import ModelPath, merged, open_model
from tinygpt.cli.options import engine_changes, given, option, setting
from tinygpt.cli.output import Output, size_of
from tinygpt.cli.resume import refuse_changes, resumed_training
from tinygpt.cli.settings import DataChoice, parse_assignments, typed_table
from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.progress import Progress
from tinygpt.core.trainer import Trainer, run_now
from tinygpt.engines.select import EngineChoice, resolve_engine
from tinygpt.locks import only_writer

if TYPE_CHECKING:
    from tinygpt.engines.base import State
    from tinygpt.formats import Checkpoint
    from tinygpt.reference.lora import Adapter, LoraEngine

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


class Job(NamedTuple):
    """An adapter to train: a new one, or the one in `out` from its `resumed` state."""

    model: Path
    base: Checkpoint  # what `model` stands for
    out: Path
    lora: LoraConfig
    run: RunConfig
    data: DataChoice = DataChoice()
    resumed: Adapter | None = None


def last_of(out: Path) -> Path:
    """Beside the adapter lies what training goes on from: the latest state, AdamW's moments with it."""
    return out.with_name(f"{out.stem}.last.safetensors")


@contextmanager
def only_trainer(out: Path) -> Iterator[None]:
    """Keeps other processes from this adapter, and clears away what one that was killed had begun to write."""
    from tinygpt.formats.atomic import remove_stale

    if not out.parent.is_dir():
        raise TinyGPTError(f"there is no folder {out.parent} for {out.name}")
    with only_writer(out.with_name(f".{out.name}.lock"), out):
        for target in (out, last_of(out)):
            remove_stale(target, after=0)
        yield


class AdapterHost(ScreenHost):
    """Keeps the adapter of the best validation (without a validation, the latest), and the state to go on from."""

    def __init__(self, *screen: Any, out: Path, engine: LoraEngine, data: DataChoice) -> None:
        super().__init__(*screen)
        self.out = out
        self.engine = engine
        self.data = data

    async def save(self, kind: str, state: State, progress: Progress) -> None:
        from tinygpt.formats import Checkpoint
        from tinygpt.reference.lora import Adapter, save_adapter

        run = Checkpoint(self.engine.config, state, progress, self.engine.name, self.data.facts(), timestamp())
        adapter = Adapter(self.out.stem, self.engine.lora, self.engine.base_sha256, run)
        if kind == "last":  # first: what a killed process leaves must be there to go on from
            here = {**run.data, "file": self.data.file}  # with its folder: this file does not travel
            save_adapter(last_of(self.out), replace(adapter, run=replace(run, data=here)), include_optimizer=True)
        if kind == "best" or progress.best_val is None:
            save_adapter(self.out, adapter)


@lora.command(epilog=TRAIN_EXAMPLES)
def train(
    model: ModelPath,
    out: Annotated[Path | None, option("--out", help="the adapter's file, named .safetensors", panel="Run")] = None,
    resume: Annotated[Path | None, option("--resume", help="go on with the adapter in this file", panel="Run")] = None,
    data: options.Data = None,
    file: options.TextFile = None,
    budget: options.Budget = None,
    rank: Annotated[int | None, setting(LoraConfig, "rank")] = None,
    alpha: Annotated[float | None, setting(LoraConfig, "alpha")] = None,
    targets: Annotated[str | None, setting(LoraConfig, "targets")] = None,
    steps: Annotated[int | None, setting(TrainConfig, "steps")] = None,
    batch: Annotated[
        int | None, option("--batch", help="sequences in a batch", default="the model's", panel="Training")
    ] = None,
    lr: Annotated[float | None, setting(TrainConfig, "lr")] = None,
    eval_every: Annotated[int | None, setting(TrainConfig, "eval_every")] = None,
    seed: Annotated[int | None, setting(TrainConfig, "seed")] = None,
    assignments: Annotated[
        list[str] | None,
        option("--set", metavar="NAME=VALUE", help="any other training setting; may be repeated", panel="Training"),
    ] = None,
    device: options.TorchDevice = None,
    precision: options.TorchPrecision = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train an adapter on another text; the model itself is not changed."""
    output = Output(json=json)
    extra = parse_assignments(assignments or [])
    if extra["model"]:
        raise TinyGPTError("an adapter keeps its model: --set takes training settings here")
    lora_changes = given({"rank": rank, "alpha": alpha, "targets": targets})
    stated = {"steps": steps, "batch": batch, "lr": lr, "eval_every": eval_every, "seed": seed}
    train_changes = {**given(stated), **extra["train"]}

    target = resume if out is None else out
    if target is None or (out is not None and resume is not None):
        raise TinyGPTError("name the new adapter's file with --out, or the one to go on with by --resume")
    machine = engine_changes(None, device, precision, None, threads)
    with only_trainer(target):
        if resume is None:
            job = new_job(model, target, lora_changes, train_changes)
        else:
            job = resumed_job(model, target, lora_changes, train_changes, output)
        chosen = choose_data(job.data, data, file, budget)._replace(sha256=job.data.sha256)
        reason, progress = execute(job._replace(data=chosen), EngineChoice(**machine), output)

    output.say()
    if reason == "stopped":
        flags = [word for name, value in machine.items() for word in (f"--{name}", str(value))]
        again = shlex.join(["tinygpt", "lora", "train", str(model), "--resume", str(job.out), *flags])
        output.hint(f"Stopped after step {progress.step:,} of {job.run.train.steps:,}; everything is saved.")
        output.hint(f"Go on with: {again}")
        output.require_stdout()
        raise typer.Exit(INTERRUPTED)
    best = progress.best_val
    measured = f", best validation loss {best:.4f}" if best is not None else ""
    output.say(f"Wrote {job.out} ({size_of(job.out.stat().st_size)}){measured}.")
    output.say(f"See what it does: tinygpt compare {model} --adapter {job.out}")
    output.require_stdout()


def new_job(model: Path, out: Path, lora_changes: dict[str, Any], train_changes: dict[str, Any]) -> Job:
    if last_of(out).exists():
        raise TinyGPTError(f"{last_of(out)} exists already: go on with --resume {out}, or choose another --out")
    if out.exists():
        raise TinyGPTError(f"{out} exists already: choose another name with --out")
    base = open_model(model)
    train = TrainConfig(**{"batch": base.config.train.batch, **train_changes})
    return Job(model, base, out, LoraConfig(**lora_changes), RunConfig(base.config.model, train))


def resumed_job(
    model: Path, out: Path, lora_changes: dict[str, Any], train_changes: dict[str, Any], output: Output
) -> Job:
    resolve_engine("torch")  # a sentence where PyTorch is missing
    from tinygpt.reference.lora import load_adapter

    if not last_of(out).exists():
        raise TinyGPTError(f"there is no {last_of(out)}, from which {out} could go on")
    adapter = load_adapter(last_of(out))
    refuse_changes("adapters", adapter.lora, lora_changes)
    train = resumed_training(adapter.run.config.train, train_changes, adapter.run.progress, output)
    data = DataChoice(**typed_table("data", adapter.run.data, DataChoice))
    if data.file:
        data = data._replace(name="")
    base = open_model(model)
    return Job(model, base, out, adapter.lora, RunConfig(base.config.model, train), data, adapter)


def execute(job: Job, machine: EngineChoice, output: Output) -> tuple[str, Progress]:
    """Train to the end, or to Ctrl-C; why it ended, and how far it came."""
    output.outlive()
    corpus = open_corpus(job.data, output, remedy=OF_RESUMED)
    train_text, val_text = corpus.split(job.run.train.val_fraction)
    resolve_engine("torch")  # a sentence where PyTorch is missing
    from tinygpt.reference.lora import LoraEngine, require_base

    where = {"device": machine.device, "precision": machine.precision, "threads": machine.threads or None}
    engine = LoraEngine(job.run, job.base.state.w, job.lora, **where)
    run_now(engine.load_corpus(train_text, val_text))
    progress = Progress()
    if job.resumed is not None:
        require_base(engine.model, job.resumed)
        run_now(engine.import_state(job.resumed.run.state))
        progress = job.resumed.run.progress
    facts = [
        ("model", str(job.model)),
        ("engine", engine.describe()),
        ("corpus", f"{corpus.name}: {len(corpus.text):,} bytes"),
        ("adapter", str(job.out)),
    ]
    if progress.step:
        facts.append(("resumed", f"from step {progress.step:,}"))
    output.facts(facts)

    display = output.display("lora")
    with stop_signals(display.stop_soon) as stop:
        host = AdapterHost(output, display, stop, out=job.out, engine=engine, data=pinned(job.data, corpus))
        trainer = Trainer(job.run, engine, host, len(train_text), len(val_text), progress)
        display.begin(job.run.train.steps, [])
        try:
            return run_now(trainer.run()), progress
        finally:
            display.end()


@lora.command()
def merge(
    model: ModelPath,
    adapter: AdapterFile,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="the new .tinygpt file", show_default=False)],
) -> None:
    """Write model and adapter as one plain model. (There is no way back but the base, which stays.)"""
    from tinygpt.formats import load_model, save_tinygpt

    if target.exists():
        raise TinyGPTError(f"{target} exists already: choose another name")
    save_tinygpt(target, merged(load_model(model), adapter))
    Output().say(f"Wrote {target}.")


@lora.command()
def info(adapter: AdapterFile) -> None:
    """What an adapter is for, and how it was trained."""
    resolve_engine("torch")  # a sentence where PyTorch is missing
    from tinygpt.reference.lora import load_adapter

    found = load_adapter(adapter)
    model, state, progress = found.run.config.model, found.run.state, found.run.progress
    shape = f"{model.layers} layers, d_model {model.d_model}, {model.heads} heads, ctx {model.ctx}"
    rows = [
        ("adapter", f"{found.name}, {size_of(adapter.stat().st_size)}"),
        ("for", f"{shape}; weights sha256 {found.base_sha256[:16]}…"),
        ("rank", f"{found.lora.rank}, alpha {found.lora.alpha:g}, on {found.lora.targets}"),
        ("parameters", f"{state.w.size:,}"),
        ("trained", f"{state.step:,} steps on {found.run.data.get('name', 'an unnamed text')}"),
    ]
    if progress.best_val is not None:
        rows.append(("best val", f"{progress.best_val:.4f} at step {progress.best_step:,}"))
    Output().facts(rows)
