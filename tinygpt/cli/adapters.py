"""Training an adapter: what `lora train` does once its flags are understood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.cli.choices import DataChoice
from tinygpt.cli.corpora import OF_RESUMED, open_corpus, pinned
from tinygpt.cli.hosts import ScreenHost, run_to_end, timestamp
from tinygpt.cli.interrupts import stop_signals
from tinygpt.cli.models import open_model
from tinygpt.cli.output import Output
from tinygpt.cli.reports import end_event, start_event
from tinygpt.cli.resume import resumed_training
from tinygpt.cli.settings import typed_table
from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.exam import exam_of
from tinygpt.core.run.progress import Progress
from tinygpt.core.run.trainer import Trainer
from tinygpt.engines.select import EngineChoice, resolve_engine
from tinygpt.locks import only_writer

if TYPE_CHECKING:
    from tinygpt.data import Corpus
    from tinygpt.engines.base import State
    from tinygpt.formats import Checkpoint
    from tinygpt.reference.lora import Adapter, LoraEngine

SUFFIX = ".safetensors"
LAST = ".last" + SUFFIX


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
    return out.with_name(out.stem + LAST)


def require_adapter_name(path: Path, flag: str) -> None:
    """One name per adapter: `--out`, `--resume` and `--adapter` are all given it."""
    if path.name.endswith(LAST):
        adapter = path.with_name(path.name.removesuffix(LAST) + SUFFIX)
        raise TinyGPTError(f"{path} would be what an adapter goes on from: name the adapter itself, {flag} {adapter}")
    if path.suffix != SUFFIX:
        raise TinyGPTError(f"an adapter's name ends in {SUFFIX}: say {flag} {path}{SUFFIX}")


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

    def keeps(self, kind: str) -> bool:
        return kind != "kept"  # an adapter is one file, and the one to go on from

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
    from tinygpt.reference.lora import load_adapter, require_base
    from tinygpt.reference.model import make_model

    if not last_of(out).exists():
        raise TinyGPTError(f"there is no {last_of(out)}, from which {out} could go on")
    adapter = load_adapter(last_of(out))
    if adapter.run.progress.best_val is not None and not out.exists():
        raise TinyGPTError(f"there is no {out}, the best adapter so far: {last_of(out)} alone cannot go on")
    base = open_model(model)
    require_base(make_model(base.config.model, base.state.w), adapter)
    adapter.lora.going_on(**lora_changes)
    train = resumed_training(adapter.run.config.train, train_changes, adapter.run.progress, output)
    data = DataChoice(**typed_table("data", adapter.run.data, DataChoice))
    if data.file:
        data = data._replace(name="")
    return Job(model, base, out, adapter.lora, RunConfig(base.config.model, train), data, adapter)


def execute(job: Job, machine: EngineChoice, output: Output) -> tuple[str, Progress]:
    """Train to the end, or to Ctrl-C; why it ended, and how far it came."""
    output.outlive()
    corpus = open_corpus(job.data, output, remedy=OF_RESUMED.format(""))
    train_text, val_text = corpus.split(job.run.train.val_fraction)
    exam = exam_of(job.data.name, job.run.model.ctx)
    resolve_engine("torch")  # a sentence where PyTorch is missing
    from tinygpt.reference.lora import LoraEngine

    options = {"device": machine.device, "precision": machine.precision, "threads": machine.threads or None}
    engine = LoraEngine(job.run, job.base.state.w, job.lora, **options)
    run_now(engine.load_corpus(train_text, val_text))
    progress = Progress()
    if job.resumed is not None:
        run_now(engine.import_state(job.resumed.run.state))
        progress = job.resumed.run.progress
    output.facts(facts_of(job, engine, corpus, progress))
    display = output.display("lora")
    where = {"adapter": str(job.out)}
    about = {"model": str(job.model), "lora": job.lora.as_dict()}
    count = sum(tensor.numel() for tensor in engine.trained)
    display.event(start_event(job.run, progress, engine, corpus, parameters=count) | where | about)

    with stop_signals(display.stop_soon, engine.stop) as stop:
        host = AdapterHost(output, display, stop, out=job.out, engine=engine, data=pinned(job.data, corpus))
        trainer = Trainer(job.run, engine, host, len(train_text), len(val_text), progress, exam=exam)
        display.begin(job.run.train.steps, [])

        def end(reason: str) -> None:
            display.end()
            display.event(end_event(reason, progress, host.train_loss()) | where)

        return run_to_end(trainer, end), progress


def facts_of(job: Job, engine: LoraEngine, corpus: Corpus, progress: Progress) -> list[tuple[str, str]]:
    facts = [
        ("model", str(job.model)),
        ("engine", engine.describe()),
        ("corpus", f"{corpus.name}: {len(corpus.text):,} bytes"),
        ("adapter", str(job.out)),
    ]
    return [*facts, ("resumed", f"from step {progress.step:,}")] if progress.step else facts
