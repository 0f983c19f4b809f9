"""One run of a sweep, from its settings to its result."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.train.host import Host
from tinygpt.core.train.progress import Progress
from tinygpt.core.train.trainer import Diverged, Trainer
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.store.runs import RunFolder
from tinygpt.sweeps.plan import Run
from tinygpt.sweeps.results import DIVERGED, FAILED, Result

if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig
    from tinygpt.core.engine.contract import Engine
    from tinygpt.engines.base import State

FINAL_STEPS = 20  # the final train loss is the mean of so many
STOPPED = "stopped"


class Work(NamedTuple):
    """What all runs of a sweep have in common."""

    engine: EngineChoice
    train_text: bytes
    val_text: bytes
    whole_text: bool = False


class Kept(NamedTuple):
    """Where a run keeps its folder, what its config.toml says, and the facts of its text."""

    path: Path
    config: str
    data: dict[str, Any]


class SweepHost(Host):
    """Listens to the loop; with a folder, keeps there what `train` would."""

    def __init__(self, run: Run, on_step: Callable[[int], bool], folder: RunFolder | None, kept: Kept | None) -> None:
        self.run, self.on_step, self.folder, self.kept = run, on_step, folder, kept
        self.losses: deque[float] = deque(maxlen=FINAL_STEPS)
        self.validations: list[tuple[int, float]] = []
        self.step = 0
        self.engine_name = ""

    def now(self) -> float:
        return time.perf_counter()

    def emit(self, event: dict[str, Any]) -> None:
        if event["event"] == "step":
            self.losses.append(event["loss"])
            self.step = event["step"]
        elif event["event"] == "eval":
            self.validations.append((event["step"], event["val_loss"]))
        if self.folder is not None:
            self.folder.record(event)

    def should_stop(self) -> bool:
        return not self.on_step(self.step)

    def keeps(self, kind: str) -> bool:
        return self.folder is not None

    def checkpoint_due(self, step: int, every: int) -> bool:
        return self.folder is not None and super().checkpoint_due(step, every)

    async def save(self, kind: str, state: State, progress: Progress) -> None:
        from tinygpt.store.formats import Checkpoint

        assert self.folder is not None and self.kept is not None
        saved_at = datetime.now(UTC).isoformat(timespec="seconds")
        checkpoint = Checkpoint(self.run.config, state, progress, self.engine_name, self.kept.data, saved_at=saved_at)
        self.folder.save(kind, checkpoint)


class SweepTrainer(Trainer):
    """The loop, with a clock for its training, and samples only where they are kept."""

    def __init__(self, *arguments: Any, samples: bool) -> None:
        super().__init__(*arguments)
        self.samples = samples
        self.reached: list[tuple[int, float]] = []  # the step reached, and the seconds it took from the one before

    async def train_block(self) -> bool:
        began = self.host.now()
        try:
            return await super().train_block()
        finally:
            self.reached.append((self.progress.step, self.host.now() - began))

    def passes(self, step: int) -> bool:
        return False  # how long it took to every validation is asked for

    async def sample(self, ends: bool) -> None:
        if self.samples:
            await super().sample(ends)

    def seconds_at(self, step: int) -> float:
        """Of training up to a step. The first block counts as much as its steps would have later: it also waits for
        compilers, which the next run of the same kind does not."""
        (first, start), later = self.reached[0], self.reached[1:]
        if later and later[-1][0] > first:
            start = min(start, first * sum(seconds for _, seconds in later) / (later[-1][0] - first))
        return start + sum(seconds for reached, seconds in later if reached <= step)


class Runner:
    """Does runs one after the other. An engine is used again as long as its programs serve."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.engine: Engine | None = None

    def run(self, run: Run, on_step: Callable[[int], bool], kept: Kept | None = None) -> Result | None:
        """None: it was stopped, because `on_step` said so with a False. What stops a run for another reason is a
        result."""
        began = time.perf_counter()
        try:
            engine = self.engine_for(run.config)
        except (TinyGPTError, MemoryError) as fault:
            self.close()
            return failed(run, fault, time.perf_counter() - began)
        folder = prepared(kept) if kept is not None else None
        host = SweepHost(run, on_step, folder, kept)
        host.engine_name = engine.name
        texts = len(self.work.train_text), len(self.work.val_text)
        trainer = SweepTrainer(run.config, engine, host, *texts, samples=folder is not None)
        text_loss: float | None = None
        reason = ""
        try:
            outcome = run_now(trainer.run())
            if outcome != STOPPED and self.work.whole_text:
                text_loss = whole_loss(engine, self.work.val_text)
        except Diverged as fault:
            outcome, reason = DIVERGED, str(fault).partition(";")[0]
        except (TinyGPTError, MemoryError) as fault:
            self.close()
            return failed(run, fault, time.perf_counter() - began)
        finally:
            if folder is not None:
                folder.close()
        if outcome == STOPPED:
            return None
        if folder is not None:
            draw(folder, run)
        return result_of(run, trainer, host, outcome, reason, text_loss, time.perf_counter() - began)

    def engine_for(self, config: RunConfig) -> Engine:
        if self.engine is not None:
            if run_now(self.engine.restart(config)):
                return self.engine
            self.close()
        self.engine = make_engine(config, self.work.engine)
        run_now(self.engine.load_corpus(self.work.train_text, self.work.val_text))
        return self.engine

    def stop(self) -> None:
        if self.engine is not None:
            self.engine.stop()

    def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            run_now(engine.close())


def whole_loss(engine: Engine, text: bytes) -> float:
    from tinygpt.engines.evaluation import evaluate

    return run_now(evaluate(engine, text)).loss


def prepared(kept: Kept) -> RunFolder:
    """A new folder in place of what an attempt that was stopped may have left."""
    if kept.path.exists():
        shutil.rmtree(kept.path)
    folder = RunFolder.create(kept.path)
    folder.write_config(kept.config)
    return folder


def draw(folder: RunFolder, run: Run) -> None:
    from tinygpt.plots import save_loss_plot
    from tinygpt.sweeps.plan import described

    metrics = folder.read_metrics()
    train = [(event["step"], event["loss"]) for event in metrics if event["event"] == "step"]
    val = [(event["step"], event["val_loss"]) for event in metrics if event["event"] == "eval"]
    save_loss_plot(folder.plot, described(run.settings), train, val)


def result_of(
    run: Run,
    trainer: SweepTrainer,
    host: SweepHost,
    outcome: str,
    reason: str,
    text_loss: float | None,
    wall_seconds: float,
) -> Result:
    tokens = trainer.tokens_per_step
    steps = host.step  # a run that diverged has gone back to its last checkpoint
    seconds = trainer.seconds_at(trainer.reached[-1][0]) if trainer.reached else 0.0
    best = min(host.validations, key=lambda validation: validation[1], default=(0, None))
    return Result(
        rung=run.rung,
        settings=run.settings,
        config=run.config.as_dict(),
        parameters=parameter_count(run.config.model),
        outcome=outcome,
        reason=reason,
        engine=trainer.engine.describe(),
        steps=steps,
        tokens=steps * tokens,
        seconds=round(seconds, 6),
        wall_seconds=round(wall_seconds, 4),
        tokens_per_second=round(steps * tokens / seconds, 1) if seconds else 0.0,
        train_loss=sum(host.losses) / len(host.losses) if host.losses else None,
        val_loss=host.validations[-1][1] if host.validations else None,
        best_val=best[1],
        best_step=best[0],
        text_loss=text_loss,
        curve=[(step * tokens, round(trainer.seconds_at(step), 6), loss) for step, loss in host.validations],
    )


def failed(run: Run, fault: BaseException, wall_seconds: float) -> Result:
    """A run that this machine could not do, say for want of memory."""
    reason = "there is not enough memory" if isinstance(fault, MemoryError) else str(fault)
    count, took = parameter_count(run.config.model), round(wall_seconds, 4)
    return Result(run.rung, run.settings, run.config.as_dict(), count, FAILED, reason, wall_seconds=took)
