"""`tinygpt lora`: small adapters for a model that stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinygpt.cli import options
from tinygpt.cli.corpora import choose_data, open_corpus, pinned
from tinygpt.cli.hosts import ScreenHost, timestamp
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.models import ModelPath, merged, open_model
from tinygpt.cli.options import engine_changes, given, option, setting
from tinygpt.cli.output import Output, size_of
from tinygpt.cli.settings import DataChoice, parse_assignments
from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.progress import Progress
from tinygpt.core.trainer import Trainer, run_now
from tinygpt.engines.select import EngineChoice, resolve_engine

if TYPE_CHECKING:
    from tinygpt.engines.base import State
    from tinygpt.reference.lora import LoraEngine

lora = typer.Typer(help="LoRA: train a small adapter for a model, merge it, look at it.", no_args_is_help=True)

TRAIN_EXAMPLES = """Examples:

\b
  tinygpt lora train runs/small-shakespeare-1 --data moby-dick \\
      --out whale.safetensors --steps 300 --lr 1e-3
  tinygpt compare runs/small-shakespeare-1 --adapter whale.safetensors
  tinygpt lora merge runs/small-shakespeare-1 whale.safetensors out.tinygpt
"""
AdapterFile = Annotated[Path, typer.Argument(metavar="ADAPTER", help="what `lora train` wrote", show_default=False)]


class AdapterHost(ScreenHost):
    """Keeps the adapter of the best validation; without a validation, the latest."""

    def __init__(self, *screen: Any, path: Path, engine: LoraEngine, data: dict[str, Any]) -> None:
        super().__init__(*screen)
        self.path = path
        self.engine = engine
        self.data = data

    async def save(self, kind: str, state: State, progress: Progress) -> None:
        from tinygpt.formats import Checkpoint
        from tinygpt.reference.lora import Adapter, save_adapter

        if kind == "last" and progress.best_val is not None:
            return
        run = Checkpoint(self.engine.config, state, progress, self.engine.name, self.data, timestamp())
        save_adapter(self.path, Adapter(self.path.stem, self.engine.lora, self.engine.base_sha256, run))


@lora.command(epilog=TRAIN_EXAMPLES)
def train(
    model: ModelPath,
    out: Annotated[Path, option("--out", help="the adapter's file, named .safetensors", panel="Run")],
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
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train an adapter on another text; the model itself is not changed."""
    output = Output(json=json)
    if out.exists():
        raise TinyGPTError(f"{out} exists already: choose another name with --out")
    base = open_model(model)
    settings = LoraConfig(**given({"rank": rank, "alpha": alpha, "targets": targets}))
    extra = parse_assignments(assignments or [])
    if extra["model"]:
        raise TinyGPTError("an adapter keeps its model: --set takes training settings here")
    stated = {
        "steps": steps,
        "batch": batch or base.config.train.batch,
        "lr": lr,
        "eval_every": eval_every,
        "seed": seed,
    }
    run = RunConfig(base.config.model, TrainConfig(**{**given(stated), **extra["train"]}))
    choice = choose_data(DataChoice(), data, file, budget)
    corpus = open_corpus(choice, output.console)
    train_text, val_text = corpus.split(run.train.val_fraction)

    resolve_engine("torch")  # a sentence where PyTorch is missing
    from tinygpt.reference.lora import LoraEngine

    machine = EngineChoice(**engine_changes(None, device, precision, None, threads))
    engine = LoraEngine(
        run, base.state.w, settings, device=machine.device, precision=machine.precision, threads=machine.threads or None
    )
    run_now(engine.load_corpus(train_text, val_text))
    output.facts(
        [
            ("model", str(model)),
            ("engine", engine.describe()),
            ("corpus", f"{corpus.name}: {len(corpus.text):,} bytes"),
            ("adapter", str(out)),
        ]
    )
    display = output.display("lora")
    with stop_signals(display.stop_soon) as stop:
        host = AdapterHost(display, stop, path=out, engine=engine, data=pinned(choice, corpus).facts())
        trainer = Trainer(run, engine, host, len(train_text), len(val_text))
        display.begin(run.train.steps, [])
        try:
            reason = run_now(trainer.run())
        finally:
            display.end()
    output.say()
    if reason == "stopped":
        output.hint(f"Stopped after step {trainer.progress.step:,}; {out} holds the adapter so far.")
        raise typer.Exit(INTERRUPTED)
    best = trainer.progress.best_val
    measured = f", best validation loss {best:.4f}" if best is not None else ""
    output.say(f"Wrote {out} ({size_of(out.stat().st_size)}){measured}.")
    output.say(f"See what it does: tinygpt compare {model} --adapter {out}")


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
