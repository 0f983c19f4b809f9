"""From settings to a trained model in a run folder: what `train` does once its flags are understood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tinygpt.cli.corpora import OF_CONFIG, OF_RESUMED, Texts, open_texts, with_texts
from tinygpt.cli.hosts import ScreenHost, run_to_end, timestamp
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.journals import Journal, open_journals
from tinygpt.cli.output import Output
from tinygpt.cli.reports import RunReport
from tinygpt.cli.settings import TrainSettings
from tinygpt.core.corpus import check_corpus
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.run.coach import coach_of
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.exam import exam_of
from tinygpt.core.run.progress import Progress
from tinygpt.core.run.trainer import Trainer
from tinygpt.core.run.watching import Watcher
from tinygpt.engines.auto import Work
from tinygpt.engines.select import make_engine, settle
from tinygpt.runs import RUNS, RunFolder, create_numbered, require_free

if TYPE_CHECKING:
    from tinygpt.cli.budgeting import Foreseen, Minutes
    from tinygpt.core.config import RunConfig
    from tinygpt.core.run.contract import Engine
    from tinygpt.core.run.exam import Exam
    from tinygpt.engines.base import FloatArray, State
    from tinygpt.formats import Checkpoint


@dataclass(frozen=True)
class Job:
    """A run to do: a new one in `out` (None: a numbered folder), or the one in `folder`.

    It goes on from where `resumed` stands, or begins at step 0: with the weights of the model it has its origin in,
    or with start values. Where it trains adapters, those weights are what they stand on.
    """

    settings: TrainSettings
    out: Path | None = None
    folder: RunFolder | None = None
    resumed: Checkpoint | None = None
    weights: FloatArray | None = None
    minutes: Minutes | None = None  # the run is chosen to fit them
    journals: tuple[str, ...] = ()  # other programs that are told of it
    watch: Watch | None = None  # tensors to tell of on the way

    def state(self) -> State | None:
        from tinygpt.engines.base import State

        if self.resumed is not None:
            return self.resumed.state
        return None if self.weights is None or self.settings.run.lora is not None else State(0, self.weights)


class Watch(NamedTuple):
    """Tensors of a step by their names' patterns; told of every so many steps, None: as often as it is validated."""

    patterns: tuple[str, ...]
    every: int | None = None

    def watcher(self, run: RunConfig, engine: Engine) -> Watcher:
        every = self.every if self.every is not None else run.train.eval_every or run.train.steps
        return Watcher(run, engine, self.patterns, every)


class RunHost(ScreenHost):
    """Takes the loop's events and checkpoints to the run's folder, too. Only the main process has one."""

    def __init__(
        self, *screen: Any, folder: RunFolder | None, settings: TrainSettings, journals: Sequence[Journal]
    ) -> None:
        super().__init__(*screen)
        self.folder = folder
        self.settings = settings
        self.journals = journals
        self.beside = Beside()

    def emit(self, event: dict[str, Any]) -> None:
        if event["event"] == "retime":
            self.settings = self.settings.with_values("train", {"steps": event["steps"]})
            if self.folder is not None:
                self.folder.write_config(self.settings.as_toml())
        if self.folder is not None:
            self.folder.record(event)
        for journal in self.journals:
            journal.event(event)
        super().emit(event)

    async def save(self, kind: str, state: State, progress: Progress) -> None:
        """The best so far is written beside the training, which it would hold up with every validation; before
        any other is written, that is done."""
        if self.folder is None:
            return
        self.beside.wait()
        checkpoint = checkpoint_of(self.settings, state, Progress.from_dict(progress.as_dict()))
        if kind == "best":
            self.beside.do(partial(self.folder.save, kind, checkpoint))
        else:
            self.folder.save(kind, checkpoint)


class Beside:
    """Work in a thread of its own, a piece at a time. A fault is raised by whoever waits for it."""

    def __init__(self) -> None:
        self.thread: ThreadPoolExecutor | None = None
        self.pending: Future[None] | None = None

    def do(self, work: Callable[[], None]) -> None:
        self.thread = self.thread or ThreadPoolExecutor(1)
        self.pending = self.thread.submit(work)

    def wait(self) -> None:
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Let what is begun be done, whatever comes of it."""
        if self.thread is not None:
            self.thread.shutdown()


def checkpoint_of(settings: TrainSettings, state: State, progress: Progress) -> Checkpoint:
    from tinygpt.formats import Checkpoint

    return Checkpoint(
        settings.run,
        state,
        progress,
        backend=settings.engine.name,
        data=settings.data_facts(),
        saved_at=timestamp(),
        origin=settings.origin.facts(),
    )


def execute(job: Job, output: Output) -> None:
    """Train to the end, or to Ctrl-C. Whatever happens, the folder is left whole."""
    output.outlive()
    if job.out is not None:
        require_free(job.out)  # before the slow parts, and in every process of torchrun
    exam = exam_of(job.settings.data.name, job.settings.run.model.ctx)
    texts = open_texts(job.settings, output, remedy=OF_CONFIG if job.resumed is None else OF_RESUMED)
    foreseen = None
    if job.minutes is not None:
        from tinygpt.cli.budgeting import foresee

        chosen, foreseen = foresee(job.minutes, job.settings, texts, output)
        job = replace(job, settings=chosen)
    run = job.settings.run
    check_corpus(run, len(texts.train))
    progress = Progress() if job.resumed is None else job.resumed.progress
    choice, why = settle(job.settings.engine, run, Work(run.train.steps - progress.step))
    engine = make_engine(run, choice, job.state(), None if run.lora is None else job.weights)
    watcher = None if job.watch is None else job.watch.watcher(run, engine)
    run_now(engine.load_corpus(texts.train, texts.val))
    settings = replace(with_texts(job.settings, texts), engine=choice)
    with ExitStack() as held:
        prepared = prepared_folder(job, settings, texts.corpus.name, progress) if output.main else nullcontext()
        folder = held.enter_context(prepared)
        journals = held.enter_context(open_journals(job.journals, folder, settings))
        report = RunReport(output, settings, engine, why, texts, folder)
        reason = train_in(folder, settings, engine, texts, exam, progress, output, report, foreseen, journals, watcher)
    output.require_stdout()
    if reason == "stopped":
        raise typer.Exit(INTERRUPTED)


def train_in(
    folder: RunFolder | None,
    settings: TrainSettings,
    engine: Engine,
    texts: Texts,
    exam: Exam | None,
    progress: Progress,
    output: Output,
    report: RunReport,
    foreseen: Foreseen | None,
    journals: Sequence[Journal],
    watcher: Watcher | None,
) -> str:
    """Run the loop and report on it; why it ended."""
    run, first, device = settings.run, progress.step, engine.describe()
    past = folder.read_metrics() if folder is not None else []
    display = output.display(settings.preset)
    report.before(progress, display, exam)

    with stop_signals(display.stop_soon, engine.stop) as stop:
        host = RunHost(output, display, stop, folder=folder, settings=settings, journals=journals)
        host.last_losses.extend(event["loss"] for event in past if event["event"] == "step")
        prompt = settings.prompt.encode()
        # The coach knows losses of prose: of a task, what can be foretold is another share of a line. And he knows
        # models that begin with nothing, all of whose weights learn.
        knows = exam is None and run.lora is None
        coach = coach_of(run, len(texts.train), engine.replicas) if knows else None
        sizes = len(texts.train), len(texts.val)
        pace = None if foreseen is None else foreseen.pace()
        trainer = Trainer(run, engine, host, *sizes, progress, prompt, settings.sample, coach, exam, pace, watcher)
        display.begin(run.train.steps, past)

        def end(reason: str) -> None:
            host.beside.close()
            display.end()
            seconds = round(host.now() - trainer.began, 3)
            session = {"event": "session", "from": first, "step": progress.step, "seconds": seconds, "device": device}
            close(folder, settings, engine, reason, session, watcher)
            report.settings = host.settings  # the run may have another length by now
            report.judge(reason, foreseen, progress.best_val, display)
            report.ended(reason, progress, host.train_loss(), display)

        reason = run_to_end(trainer, end)
    report.after(reason, progress, host.train_loss(), len(host.last_losses), display.exam)
    return reason


def prepared_folder(job: Job, settings: TrainSettings, corpus: str, progress: Progress) -> RunFolder:
    """A new folder, or that of the resumed run without what came behind its checkpoint; config.toml is written.

    Either is locked. A new folder of a run that goes on has the checkpoint that it goes on from.
    """
    folder = job.folder
    if folder is not None:
        folder.drop_after(progress.step)
    elif job.out is not None:
        folder = RunFolder.create(job.out)
    else:
        stem = Path(corpus).stem if settings.data.file else corpus.split("/")[-1]
        what = settings.preset if settings.run.lora is None else f"{settings.preset}-lora"
        folder = create_numbered(RUNS, f"{what}-{stem}")
    folder.write_config(settings.as_toml())
    if job.folder is None and job.resumed is not None:
        for kind in ("last", "best") if progress.best_step == progress.step else ("last",):
            folder.save(kind, checkpoint_of(settings, job.resumed.state, progress))
    return folder


def close(
    folder: RunFolder | None,
    settings: TrainSettings,
    engine: Engine,
    reason: str,
    session: dict[str, Any],
    watcher: Watcher | None,
) -> None:
    """Note how long it took and draw the curve, and what was watched, unless the end was to come at once.

    A run that failed keeps its own error, whatever happens.
    """
    run_now(engine.close())
    if folder is None or reason == "interrupted":
        return
    with suppress(*((TinyGPTError,) if reason in ("failed", "diverged") else ())):
        folder.record(session)
        draw(folder, settings)
        if watcher is not None and watcher.last:
            from tinygpt.looking.watched import save_watched

            save_watched(folder.path, folder.read_metrics(), watcher.last)


def draw(folder: RunFolder, settings: TrainSettings) -> None:
    from tinygpt.plots import save_loss_plot

    metrics = folder.read_metrics()
    train = [(event["step"], event["loss"]) for event in metrics if event["event"] == "step"]
    val = [(event["step"], event["val_loss"]) for event in metrics if event["event"] == "eval"]
    title = f"{folder.path.resolve().name}: {settings.preset} on {settings.data.title()}"
    exams = [(event["step"], event["accuracy"]) for event in metrics if event["event"] == "exam"]
    save_loss_plot(folder.plot, title, train, val, exams)
