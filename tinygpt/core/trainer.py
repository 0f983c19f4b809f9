"""The one training loop of the project: every engine, in the terminal and in the tab, is driven by it."""

import math

from tinygpt.core.config import LN_VOCAB, RunConfig, SampleConfig, TrainConfig, check_corpus, validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.progress import Progress
from tinygpt.core.rng import batch_offsets, eval_offsets
from tinygpt.core.sampler import NotFinite, generate
from tinygpt.core.text import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

EXPLODED_LOSS = 2 * LN_VOCAB  # twice the loss of a model that knows nothing
EXPLODED_STEPS = 5  # so many in a row: a single bad batch may pass
RATE_WINDOW = 20  # readings over which tokens/s are averaged


def run_now(coroutine: "Coroutine[Any, Any, T]") -> "T":
    """Drive a coroutine that never suspends (every engine of the terminal) to its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("the engine suspended; drive it with an event loop")


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of step number `step`, counted from 1."""
    if step <= train.warmup:
        return train.lr * step / train.warmup
    if train.schedule == "constant" or train.steps <= train.warmup + 1:
        return train.lr
    done = min(1.0, (step - train.warmup - 1) / (train.steps - train.warmup - 1))
    low = min(train.min_lr, train.lr)
    return low + (train.lr - low) * 0.5 * (1.0 + math.cos(math.pi * done))


class Diverged(TinyGPTError):
    """The loss is no longer a number, or far above that of an untrained model."""


class Host:
    """What the loop needs of its surroundings. The CLI and the page each extend it."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        raise NotImplementedError

    def emit(self, event: "dict[str, Any]") -> None:
        """Take note of a step, eval, sample or checkpoint event (the key "event" names it)."""

    def should_stop(self) -> bool:
        return False

    def checkpoint_due(self, step: int, every: int) -> bool:
        return due(step, every)

    def keeps(self, kind: str) -> bool:
        """Whether there is any use in saving a state when a run begins, ends or has a new best."""
        return True

    async def save(self, kind: str, state: "Any", progress: Progress) -> bool | None:
        """Keep the engine's exported state as the "last" or the "best" checkpoint. False: the one before is kept."""

    async def go_back(self) -> None:
        """The run has diverged. Where the engine is used further, give it the state of the "last" checkpoint."""


class Rate:
    """Training tokens per second over the last readings, time outside of training steps left out."""

    def __init__(self, tokens_per_step: int) -> None:
        self.tokens_per_step = tokens_per_step
        self.readings: list[tuple[int, float]] = []  # (steps, seconds)

    def add(self, steps: int, seconds: float) -> None:
        self.readings = self.readings[-(RATE_WINDOW - 1) :] + [(steps, seconds)]

    def seconds_per_step(self) -> float:
        steps = sum([reading[0] for reading in self.readings])
        return sum([reading[1] for reading in self.readings]) / steps if steps else 0.0

    def tokens_per_second(self) -> float:
        seconds = self.seconds_per_step()
        return self.tokens_per_step / seconds if seconds > 0 else 0.0


class Trainer:
    """Trains `engine` on a corpus it has loaded already, from where `progress` stands."""

    def __init__(
        self,
        config: RunConfig,
        engine: "Any",
        host: Host,
        train_bytes: int,
        val_bytes: int,
        progress: Progress | None = None,
        sample_prompt: bytes = b"\n",
        sample_settings: SampleConfig | None = None,
    ) -> None:
        check_corpus(config, train_bytes)
        self.config = config
        self.engine = engine
        self.host = host
        self.train_bytes = train_bytes
        self.val_bytes = val_bytes
        self.validating = validates(config, val_bytes)
        self.progress = progress or Progress()
        self.sample_prompt = sample_prompt
        self.sample_settings = sample_settings or SampleConfig()
        self.rows = config.train.batch * config.train.grad_accum * engine.replicas
        self.rate = Rate(self.rows * config.model.ctx)
        self.exploded = 0
        self.last = self.progress.as_dict()  # where the run stood at its "last" checkpoint
        self.unproven: tuple[Any, dict[str, Any]] | None = None  # a state, and where the run stood with it

    async def run(self) -> str:
        """Train to config.train.steps. Returns why it ended: "finished", "early-stop" or "stopped".

        A "last" checkpoint is saved before the first step, so that a folder that cannot be written to is
        found out at once, and at the end, whatever the reason. On the way a state is saved once the loss of a
        step that began with it is sound. When the loss diverges, `Diverged` is raised, and the run stands where
        it stood at the "last" checkpoint.
        """
        try:
            return await self.loop()
        except Diverged:
            await self.host.go_back()
            self.progress.restore(self.last)
            raise

    async def loop(self) -> str:
        train = self.config.train
        progress = self.progress
        reason = "finished"
        since_reading = 0
        if progress.step == 0:
            await self.save("last")
        clock = self.host.now()
        while progress.step < train.steps:
            step = progress.step + 1
            offsets = batch_offsets(train.seed, step, self.rows, self.train_bytes, self.config.model.ctx)
            await self.engine.train_step(step, learning_rate(train, step), offsets)
            progress.step = step
            progress.tokens_seen += self.rate.tokens_per_step
            since_reading += 1

            last = step == train.steps
            stopping = await self.engine.agree(self.host.should_stop())
            evaluating = self.validating and (last or step % train.eval_every == 0)
            sampling = last or due(step, train.sample_every)
            saving = self.host.checkpoint_due(step, train.checkpoint_every)
            looking = evaluating or sampling or saving or last or stopping or self.unproven is not None
            if looking or since_reading >= self.engine.metrics_every:
                metrics = await self.engine.read_metrics()
                now = self.host.now()
                self.rate.add(since_reading, now - clock)
                since_reading = 0
                self.report(metrics)
                await self.save_proven()
            if evaluating and await self.evaluate():
                await self.save("best")
            if sampling:
                await self.sample()
            if train.patience and progress.evals_since_best >= train.patience:
                reason = "early-stop"
            elif stopping and not last:
                reason = "stopped"
            if last or reason != "finished":
                await self.save("last")
                break
            if saving and not self.exploded:
                self.unproven = (await self.engine.export_state(), progress.as_dict())
            if since_reading == 0:
                clock = self.host.now()
        return reason

    def report(self, metrics: "list[Any]") -> None:
        """Tell the host of each step, and stop a run whose loss has left the track."""
        train = self.config.train
        for step, loss, grad_norm in metrics:
            self.exploded = self.exploded + 1 if loss > EXPLODED_LOSS else 0
            if not math.isfinite(loss + grad_norm) or self.exploded >= EXPLODED_STEPS:
                raise self.diverged(step, symptom(loss, grad_norm))
            self.progress.loss = loss
            self.progress.history.add(step, loss)
            self.host.emit(
                {
                    "event": "step",
                    "step": step,
                    "loss": loss,
                    "grad_norm": grad_norm,
                    "lr": learning_rate(train, step),
                    "tokens_per_s": self.rate.tokens_per_second(),
                    "eta_s": (train.steps - step) * self.rate.seconds_per_step(),
                }
            )

    def diverged(self, step: int, what: str) -> Diverged:
        return Diverged(divergence_sentence(self.config.train, step, what, self.last["step"]))

    async def evaluate(self) -> bool:
        """Measure the validation loss; whether it is the best so far."""
        train, progress = self.config.train, self.progress
        rows = train.batch * train.eval_batches
        offsets = eval_offsets(train.seed, rows, self.val_bytes, self.config.model.ctx)
        loss = await self.engine.eval_loss(offsets)
        if not math.isfinite(loss):
            raise self.diverged(progress.step, f"the validation loss is {loss}")
        best = progress.best_val is None or loss < progress.best_val
        if best:
            progress.best_val, progress.best_step, progress.evals_since_best = loss, progress.step, 0
        else:
            progress.evals_since_best += 1
        self.host.emit({"event": "eval", "step": progress.step, "val_loss": loss, "best": best})
        return best

    async def sample(self) -> None:
        try:
            made = await generate(self.engine, self.config.model.ctx, self.sample_prompt, self.sample_settings)
        except NotFinite:
            raise self.diverged(self.progress.step, "the model's logits are not finite") from None
        self.progress.sample = decode(made)
        self.host.emit({"event": "sample", "step": self.progress.step, "text": self.progress.sample})

    async def save(self, kind: str) -> None:
        if self.host.keeps(kind):
            await self.keep(kind, await self.engine.export_state(), self.progress)

    async def save_proven(self) -> None:
        """Save the state that was set aside, once the steps behind it have shown that it is sound."""
        if self.unproven is not None and not self.exploded:
            state, stood = self.unproven
            self.unproven = None
            await self.keep("last", state, Progress.from_dict(stood))

    async def keep(self, kind: str, state: "Any", progress: Progress) -> None:
        if await self.host.save(kind, state, progress) is False:
            return
        if kind == "last":
            self.last = progress.as_dict()
        self.host.emit({"event": "checkpoint", "step": progress.step, "kind": kind})


def due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def symptom(loss: float, grad_norm: float) -> str:
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    if not math.isfinite(grad_norm):
        return f"the gradient's norm is {grad_norm}"
    return f"the loss is {loss:.2f}, far above an untrained model's {LN_VOCAB:.2f}"


def divergence_sentence(train: TrainConfig, step: int, what: str, kept: int) -> str:
    if train.grad_clip == 0:
        cause = "gradient clipping is off (grad_clip 0): turn it on, or lower the learning rate"
    elif train.lr > 2e-3:
        cause = f"the learning rate {train.lr:g} is likely too high: try 3e-4, or add warm-up steps"
    else:
        cause = f"try a lower learning rate than {train.lr:g}, or warm-up steps"
    return f"training stopped at step {step} because {what}; {cause}. The model as of step {kept} is kept"
