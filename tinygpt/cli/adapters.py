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
from tinygpt.cli.models import open_model, with_reason
from tinygpt.cli.output import Output
from tinygpt.cli.reports import end_event, start_event
from tinygpt.cli.resume import resumed_training
from tinygpt.cli.settings import typed_table
from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.exam import exam_of
from tinygpt.core.run.progress import Progress
from tinygpt.core.run.trainer import Trainer
from tinygpt.engines.auto import Work
from tinygpt.engines.select import EngineChoice, make_engine, settle
from tinygpt.locks import only_writer

if TYPE_CHECKING:
    from tinygpt.data import Corpus
    from tinygpt.engines.base import State
    from tinygpt.formats import Checkpoint
    from tinygpt.formats.adapter_file import Adapter

SUFFIX = ".safetensors"
LAST = ".last" + SUFFIX


class Job(NamedTuple):
    """An adapter to train: a new one, or the one in `out` from its `resumed` state."""

    model: Path
    base: Checkpoint  # what `model` stands for
    out: Path
    run: RunConfig  # with its adapters
    data: DataChoice = DataChoice()
    resumed: Adapter | None = None

    @property
    def lora(self) -> LoraConfig:
        assert self.run.lora is not None
        return self.run.lora

    def base_sha256(self) -> str:
        from tinygpt.formats.checkpoint import weights_sha256

        return weights_sha256(self.base.state.w)


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

    def __init__(self, *screen: Any, job: Job, engine: str, data: DataChoice) -> None:
        super().__init__(*screen)
        self.job = job
        self.engine = engine
        self.data = data

    def keeps(self, kind: str) -> bool:
        return kind != "kept"  # an adapter is one file, and the one to go on from

    async def save(self, kind: str, state: State, progress: Progress) -> None:
        from tinygpt.formats import Checkpoint
        from tinygpt.formats.adapter_file import Adapter, save_adapter

        out = self.job.out
        run = Checkpoint(self.job.run, state, progress, self.engine, self.data.facts(), timestamp())
        adapter = Adapter(out.stem, self.job.base_sha256(), run)
        if kind == "last":  # first: what a killed process leaves must be there to go on from
            here = {**run.data, "file": self.data.file}  # with its folder: this file does not travel
            save_adapter(last_of(out), replace(adapter, run=replace(run, data=here)), include_optimizer=True)
        if kind == "best" or progress.best_val is None:
            save_adapter(out, adapter)


def new_job(model: Path, out: Path, lora_changes: dict[str, Any], train_changes: dict[str, Any]) -> Job:
    if last_of(out).exists():
        raise TinyGPTError(f"{last_of(out)} exists already: go on with --resume {out}, or choose another --out")
    if out.exists():
        raise TinyGPTError(f"{out} exists already: choose another name with --out")
    base = open_model(model)
    train = TrainConfig(**{"batch": base.config.train.batch, **train_changes})
    return Job(model, base, out, RunConfig(base.config.model, train, LoraConfig(**lora_changes)))


def resumed_job(
    model: Path, out: Path, lora_changes: dict[str, Any], train_changes: dict[str, Any], output: Output
) -> Job:
    from tinygpt.formats.adapter_file import load_adapter, require_base

    if not last_of(out).exists():
        raise TinyGPTError(f"there is no {last_of(out)}, from which {out} could go on")
    adapter = load_adapter(last_of(out))
    if adapter.run.progress.best_val is not None and not out.exists():
        raise TinyGPTError(f"there is no {out}, the best adapter so far: {last_of(out)} alone cannot go on")
    base = open_model(model)
    require_base(adapter, base.config.model, base.state.w)
    adapter.lora.going_on(**lora_changes)
    train = resumed_training(adapter.run.config.train, train_changes, adapter.run.progress, output)
    data = DataChoice(**typed_table("data", adapter.run.data, DataChoice))
    if data.file:
        data = data._replace(name="")
    return Job(model, base, out, RunConfig(base.config.model, train, adapter.lora), data, adapter)


def execute(job: Job, machine: EngineChoice, output: Output) -> tuple[str, Progress]:
    """Train to the end, or to Ctrl-C; why it ended, and how far it came."""
    output.outlive()
    corpus = open_corpus(job.data, output, remedy=OF_RESUMED.format(""))
    train_text, val_text = corpus.split(job.run.train.val_fraction)
    exam = exam_of(job.data.name, job.run.model.ctx)
    progress = Progress() if job.resumed is None else job.resumed.run.progress
    choice, why = settle(machine, job.run, Work(job.run.train.steps - progress.step))
    engine = make_engine(job.run, choice, None if job.resumed is None else job.resumed.run.state, job.base.state.w)
    run_now(engine.load_corpus(train_text, val_text))
    output.facts(facts_of(job, with_reason(engine, why), corpus, progress))
    display = output.display("lora")
    where = {"adapter": str(job.out)}
    about = {"model": str(job.model), "lora": job.lora.as_dict()}
    count = trained_count(job.run)
    display.event(start_event(job.run, progress, engine, corpus, parameters=count) | where | about)

    with stop_signals(display.stop_soon, engine.stop) as stop:
        host = AdapterHost(output, display, stop, job=job, engine=choice.name, data=pinned(job.data, corpus))
        trainer = Trainer(job.run, engine, host, len(train_text), len(val_text), progress, exam=exam)
        display.begin(job.run.train.steps, [])

        def end(reason: str) -> None:
            display.end()
            run_now(engine.close())
            display.event(end_event(reason, progress, host.train_loss()) | where)

        return run_to_end(trainer, end), progress


def facts_of(job: Job, engine: str, corpus: Corpus, progress: Progress) -> list[tuple[str, str]]:
    lora = job.lora
    facts = [
        ("model", str(job.model)),
        ("lora", f"rank {lora.rank} on {lora.targets}; {trained_count(job.run):,} parameters"),
        ("engine", engine),
        ("corpus", f"{corpus.name}: {len(corpus.text):,} bytes"),
        ("adapter", str(job.out)),
    ]
    return [*facts, ("resumed", f"from step {progress.step:,}")] if progress.step else facts
