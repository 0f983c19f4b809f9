"""A run from its settings and texts to its end, in a folder or without one, for whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.advice.coach import coach_of
from tinygpt.core.corpus import check_corpus
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.watch import Watcher
from tinygpt.core.presets import EXERCISES
from tinygpt.core.tasks import is_task
from tinygpt.core.train.exam import exam_of
from tinygpt.core.train.host import Host
from tinygpt.core.train.progress import Progress, is_better
from tinygpt.core.train.trainer import Diverged, Trainer
from tinygpt.engines.auto import Work
from tinygpt.engines.select import make_engine, settle
from tinygpt.jobs.settings import TrainSettings
from tinygpt.jobs.texts import Texts, with_texts
from tinygpt.store.runs import RUNS, RunFolder, create_numbered

if TYPE_CHECKING:
    from tinygpt.core.advice.pace import Pace
    from tinygpt.engines.base import State
    from tinygpt.store.formats import Checkpoint


CHECKPOINT_SECONDS = 60.0  # from one checkpoint to the next at most, however seldom the settings ask for one,
CHECKPOINT_SHARE = 20  # unless saving would take more than a twentieth of the time


class Watch(NamedTuple):
    """Tensors of a step by their names' patterns; told of every so many steps, None: as often as it is validated."""

    patterns: tuple[str, ...]
    every: int | None = None


@dataclass(frozen=True)
class Job:
    """A run to do: a new one, or the one in `folder`.

    It goes on from where `resumed` stands, or begins at step 0: with the weights of the model it has its origin in,
    its `base`, or with start values. Where it trains adapters, the base is what they stand on.
    """

    settings: TrainSettings
    folder: RunFolder | None = None
    resumed: Checkpoint | None = None
    base: Checkpoint | None = None
    watch: Watch | None = None  # tensors to tell of on the way
    free: frozenset[str] = frozenset()  # settings that the length of the text may still decide

    def state(self) -> State | None:
        from tinygpt.engines.base import State

        if self.resumed is not None:
            return self.resumed.state
        if self.base is None or self.settings.run.lora is not None:
            return None
        return State(0, self.base.state.w, tables=self.base.state.tables)

    def fitted(self, texts: Texts) -> Job:
        """To the texts, once they are open."""
        length = EXERCISES if is_task(self.settings.data.name) else len(texts.train)
        return replace(self, settings=self.settings.for_text(length, self.free), free=frozenset())

    def below(self) -> State | None:
        """The model that adapters are trained on."""
        return None if self.base is None or self.settings.run.lora is None else self.base.state


class Audience:
    """Hears of a run and may end it. This one does neither; the terminal's and Python's each extend it."""

    def begins(self, steps: int) -> None:
        """The loop is about to take its first step."""

    def event(self, event: dict[str, Any]) -> None:
        """The folder has it already."""

    def should_stop(self) -> bool:
        return False

    def saved(self, kind: str, checkpoint: Checkpoint) -> None:
        """A run without a folder keeps its checkpoints nowhere else."""

    def ends(self) -> None:
        """The loop is over, and the folder is not closed yet."""

    def ended(self, reason: str, settings: TrainSettings) -> None:
        """The folder has everything; an error that ended the loop is raised after this. The settings are those of the
        run at its end, which may have another length by now."""


class RunHost(Host):
    """Takes the loop's events and checkpoints to the run's folder, if it has one, and to its audience."""

    def __init__(self, folder: RunFolder | None, settings: TrainSettings, audience: Audience) -> None:
        self.folder = folder
        self.settings = settings
        self.audience = audience
        self.beside = Beside()
        self.save_at = self.now() + CHECKPOINT_SECONDS
        # A killed run may have found it after the checkpoint that it resumes from: it stays until it is beaten.
        self.best_before = folder.best_so_far() if folder is not None else None

    def now(self) -> float:
        return time.perf_counter()

    def checkpoint_due(self, step: int, every: int) -> bool:
        return super().checkpoint_due(step, every) or (self.folder is not None and self.now() >= self.save_at)

    def emit(self, event: dict[str, Any]) -> None:
        if event["event"] == "retime":
            self.settings = self.settings.with_values("train", {"steps": event["steps"]})
            if self.folder is not None:
                self.folder.write_config(self.settings.as_toml())
        if self.folder is not None:
            self.folder.record(event)
        self.audience.event(event)

    def should_stop(self) -> bool:
        return self.audience.should_stop()

    async def save(self, kind: str, state: State, progress: Progress) -> bool | None:
        """The best so far is written beside the training, which it would hold up with every validation; before
        any other is written, that is done."""
        checkpoint = checkpoint_of(self.settings, state, Progress.from_dict(progress.as_dict()))
        if self.folder is None:
            self.audience.saved(kind, checkpoint)
            return None
        self.beside.wait()
        if kind == "best":
            if not self.beats_before(progress):
                return False
            self.beside.do(partial(self.folder.save, kind, checkpoint))
            return None
        began = self.now()
        self.folder.save(kind, checkpoint)
        if kind == "last":
            now = self.now()
            self.save_at = now + max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * (now - began))
        return None

    def beats_before(self, progress: Progress) -> bool:
        before = self.best_before
        if before is None or progress.best_val is None:
            return True
        return is_better(progress.best_val, progress.best_right, before.best_val, before.best_right)

    def ends(self) -> None:
        self.beside.close()
        self.audience.ends()


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


class Session:
    """A run that is ready: its engine has the texts, and stands where the run begins or goes on."""

    def __init__(self, job: Job, texts: Texts) -> None:
        job = job.fitted(texts)
        run = job.settings.run
        check_corpus(run, len(texts.train))
        self.texts = texts
        self.exam = exam_of(job.settings.data.name, run.model.ctx)
        self.progress = Progress() if job.resumed is None else job.resumed.progress
        choice, self.why = settle(job.settings.engine, run, Work(run.train.steps - self.progress.step))
        self.settings = replace(with_texts(job.settings, texts), engine=choice)
        self.engine = make_engine(run, choice, job.state(), job.below())
        try:
            self.watcher = None if job.watch is None else self.watching(job.watch)
            run_now(self.engine.load_corpus(texts.train, texts.val))
        except BaseException:
            run_now(self.engine.close())
            raise

    def watching(self, watch: Watch) -> Watcher:
        train = self.settings.run.train
        every = watch.every if watch.every is not None else train.eval_every or train.steps
        return Watcher(self.settings.run, self.engine, watch.patterns, every)

    def train(self, folder: RunFolder | None, audience: Audience, pace: Pace | None = None) -> str:
        """Train to the end, and say why it ended. Whatever happens, the folder is left whole."""
        host = RunHost(folder, self.settings, audience)
        run, first, device = self.settings.run, self.progress.step, self.engine.describe()
        # The coach knows losses of prose: of a task, what can be foretold is another share of a line. And he knows
        # models that begin with nothing, all of whose weights learn.
        knows = self.exam is None and run.lora is None
        trainer = Trainer(
            run,
            self.engine,
            host,
            len(self.texts.train),
            len(self.texts.val),
            self.progress,
            self.settings.prompt.encode(),
            self.settings.sample,
            coach_of(run, len(self.texts.train)) if knows else None,
            self.exam,
            pace,
            self.watcher,
        )
        audience.begins(run.train.steps)
        reason = "failed"
        try:
            reason = run_now(trainer.run())
        except (Diverged, KeyboardInterrupt) as ending:
            reason = "diverged" if isinstance(ending, Diverged) else "interrupted"
            raise
        finally:
            host.ends()
            seconds = round(host.now() - trainer.began, 3)
            session = {"event": "session", "from": first, "step": self.progress.step, "seconds": seconds}
            self.close(folder, reason, session | {"device": device})
            audience.ended(reason, host.settings)
        return reason

    def close(self, folder: RunFolder | None, reason: str, session: dict[str, Any]) -> None:
        """Note how long it took and draw the curve, and what was watched, unless the end was to come at once.

        A run that failed keeps its own error, whatever happens.
        """
        run_now(self.engine.close())
        if folder is None or reason == "interrupted":
            return
        with suppress(*((TinyGPTError,) if reason in ("failed", "diverged") else ())):
            folder.record(session)
            draw(folder, self.settings)
            if self.watcher is not None and self.watcher.last:
                from tinygpt.inside.watched import save_watched

                save_watched(folder.path, folder.read_metrics(), self.watcher.last)


def checkpoint_of(settings: TrainSettings, state: State, progress: Progress) -> Checkpoint:
    from tinygpt.store.formats import Checkpoint

    return Checkpoint(
        settings.run,
        state,
        progress,
        backend=settings.engine.name,
        data=settings.data_facts(),
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=settings.origin.facts(),
    )


def prepared_folder(job: Job, session: Session, out: Path | None) -> RunFolder:
    """A new folder (`out`, or a numbered one), or that of the resumed run, what came after its checkpoint set aside.

    config.toml is written, and the folder locked. A new folder of a run that goes on has the checkpoint that it goes
    on from.
    """
    settings, progress, folder = session.settings, session.progress, job.folder
    if folder is not None:
        folder.set_aside_after(progress.step)
    elif out is not None:
        folder = RunFolder.create(out)
    else:
        corpus = session.texts.corpus.name
        stem = Path(corpus).stem if settings.data.file else corpus.split("/")[-1]
        what = settings.preset if settings.run.lora is None else f"{settings.preset}-lora"
        folder = create_numbered(RUNS, f"{what}-{stem}")
    folder.write_config(settings.as_toml())
    if job.folder is None and job.resumed is not None:
        for kind in ("last", "best") if progress.best_step == progress.step else ("last",):
            folder.save(kind, checkpoint_of(settings, job.resumed.state, progress))
    return folder


def draw(folder: RunFolder, settings: TrainSettings) -> None:
    from tinygpt.plots import save_loss_plot

    metrics = folder.read_metrics()
    train = [(event["step"], event["loss"]) for event in metrics if event["event"] == "step"]
    val = [(event["step"], event["val_loss"]) for event in metrics if event["event"] == "eval"]
    title = f"{folder.path.resolve().name}: {settings.preset} on {settings.data.title()}"
    exams = [(event["step"], event["accuracy"]) for event in metrics if event["event"] == "exam"]
    save_loss_plot(folder.plot, title, train, val, exams)
