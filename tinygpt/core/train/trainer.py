"""The one training loop of the project: every engine, in the terminal and in the tab, is driven by it."""

import math

from tinygpt.core.config import LN_VOCAB, RunConfig, SampleConfig, TrainConfig, validates
from tinygpt.core.corpus import check_corpus
from tinygpt.core.engine.rate import HEARD, Rate
from tinygpt.core.errors import NotFinite, TinyGPTError
from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import preset_like, recipe_like, tuned
from tinygpt.core.text import decode
from tinygpt.core.train.blocks import Blocks
from tinygpt.core.train.exam import ON_THE_WAY, Exam, exam_facts
from tinygpt.core.train.film import FRAME_BYTES, frame_after, in_film
from tinygpt.core.train.host import Block, Host, due
from tinygpt.core.train.progress import Progress, is_better
from tinygpt.core.train.validation import validate
from tinygpt.core.write.sampler import generate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.advice.coach import Coach
    from tinygpt.core.advice.pace import Pace
    from tinygpt.core.look.watch import Watcher

EXPLODED_LOSS = 2 * LN_VOCAB  # twice the loss of a model that knows nothing
EXPLODED_STEPS = 5  # so many in a row: a single bad batch may pass
SAMPLE_SHARE = 0.1  # of a run's time: once samples on the way have taken more, further ones are left out
SAMPLE_SECONDS = 0.5  # that they may take in any case


class Diverged(TinyGPTError):
    """The loss is no longer a number, or far above that of an untrained model."""


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
        coach: "Coach | None" = None,
        exam: Exam | None = None,
        pace: "Pace | None" = None,
        watcher: "Watcher | None" = None,
    ) -> None:
        """With a `pace` the run's length is fitted to its time; a `watcher` tells of tensors on the way."""
        check_corpus(config, train_bytes)
        self.config = config
        self.engine = engine
        self.host = host
        self.train_bytes = train_bytes
        self.val_bytes = val_bytes
        self.validating = validates(config, val_bytes)
        self.frame_bytes = FRAME_BYTES if pace is None else pace.frame
        self.progress = progress or Progress()
        self.sample_prompt = sample_prompt
        self.sample_settings = sample_settings or SampleConfig()
        self.exam = exam
        self.pace = pace
        self.watcher = watcher
        self.tokens_per_step = config.train.batch * config.train.grad_accum * config.model.ctx
        self.coach = coach
        self.blocks = Blocks(engine, host, self.take, self.judge)
        self.batch_rate = Rate()  # seconds per batch of a validation
        self.began = host.now()
        self.sampling = 0.0  # seconds that went into samples
        self.exploded = 0
        self.last = self.progress.as_dict()  # where the run stood at its "last" checkpoint
        self.keep_every = config.train.keep_every if host.keeps("kept") else 0
        # A state, where the run stood with it, and what to save it as.
        self.unproven: tuple[Any, dict[str, Any], list[str]] | None = None

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
        except TinyGPTError:
            self.exploded = 0
            await self.save_proven()  # the engine has failed: nothing will prove more
            raise

    async def loop(self) -> str:
        train, progress = self.config.train, self.progress
        progress.validation_due = progress.validation_due and self.validating
        progress.sample = ""  # it was written at an earlier end of the run
        if progress.step == 0:
            await self.save("last")
        if self.frame_due():  # the first one, or one that a stop came into
            await self.sample(False)
        while progress.step < self.config.train.steps or progress.validation_due:
            stopping = not progress.validation_due and await self.train_block()
            last = progress.step >= self.config.train.steps
            await self.save_proven()
            stopping = stopping or await self.do_what_is_due(last)
            if self.out_of_patience():
                reason = "early-stop"
            elif stopping and (not last or progress.validation_due):
                reason = "stopped"
            else:
                reason = "finished" if last else ""
            kept = ["kept"] if due(progress.step, self.keep_every) else []
            if reason:
                for kind in kept + ["last"]:
                    await self.save(kind)
                return reason
            # "last" comes after "kept": a run that is killed between the two goes on from before and keeps it again.
            due_now = await self.engine.agree(self.host.checkpoint_due(progress.step, train.checkpoint_every))
            kinds = kept + (["last"] if due_now else [])
            if kinds and not self.exploded:
                self.unproven = (await self.engine.export_state(), progress.as_dict(), kinds)
        return "finished"

    async def do_what_is_due(self, last: bool) -> bool:
        """A validation, an exam, a sample; whether the run is to stop after them."""
        train, progress = self.config.train, self.progress
        best: bool | None = False
        stopping = False
        if progress.validation_due:
            best = await self.evaluate(last)
            if best is None:
                return True
            stopping = await self.stops()
        elif last and self.exam is not None:
            await self.examine(self.exam, last)
        ends = last or self.out_of_patience()
        sampling = due(progress.step, train.sample_every) and await self.engine.agree(self.affords_a_sample())
        if (ends or sampling or self.frame_due()) and not stopping:
            await self.sample(ends)
            stopping = await self.stops()
        if best:
            await self.save("best")  # with its sample, where the run ends here
        return stopping

    def out_of_patience(self) -> bool:
        return 0 < self.config.train.patience <= self.progress.evals_since_best

    async def stops(self, halted: bool = False) -> bool:
        return bool(await self.engine.agree(halted or self.host.should_stop()))

    def steps_until_due(self, step: int) -> int:
        """From that step to the next event; one to prove a state."""
        train = self.config.train
        if self.unproven is not None:
            return 1
        steps = train.steps - step
        validate_every = train.eval_every if self.validating else 0
        watch_every = 0 if self.watcher is None else self.watcher.every
        for every in (validate_every, train.sample_every, train.checkpoint_every, self.keep_every, watch_every):
            if every:
                steps = min(steps, every - step % every)
        if train.sample_every:
            steps = min(steps, frame_after(step) - step)
        if self.pace is not None and step < train.warmup:
            steps = min(steps, train.warmup - step)
        return steps

    async def train_block(self) -> bool:
        """Some steps, up to the next event; returns whether the run is to stop after them.

        When this returns, all of them are read, and the engine's state is that after the last one.
        """
        if await self.stops():  # it came while nothing ran that could have heard it
            return True
        first, began = self.progress.step, self.host.now()
        stopped = await self.blocks.run(first, self.steps_until_due(first), self.go_past)
        self.keep_pace(self.progress.step - first, self.host.now() - began)
        if self.watcher is not None and not stopped:
            await self.watch(self.watcher, self.progress.step)
        return await self.stops(stopped)

    async def go_past(self, step: int) -> int | None:
        """The steps that may be asked for after this one before it is read: none where something waits for it. A
        validation that is due here is begun first; None where a stop cut it short."""
        if not self.passes(step):
            return 0
        if self.validates_at(step):
            batches = self.config.train.eval_batches
            if await self.engine.validate(0, batches) < batches:
                return None
            self.blocks.began_validation(self.engine.begin_validation())
        return self.steps_until_due(step)

    def passes(self, step: int) -> bool:
        """Whether steps after this one can be asked for before its validation is read: nothing else is due here, and
        nothing waits for what the validation says."""
        train, host = self.config.train, self.host
        awaited = self.exam or self.pace or self.watcher or self.unproven or train.patience or host.keeps("best")
        if awaited or step >= train.steps or due(step, self.keep_every):
            return False
        if self.validates_at(step) and self.batch_rate.fitting(HEARD, train.eval_batches) < train.eval_batches:
            return False  # it is long, or nobody knows: a stop must be heard in its midst
        samples = self.has_frame(step) or (due(step, train.sample_every) and self.affords_a_sample())
        return not samples and not host.checkpoint_due(step, train.checkpoint_every)

    async def watch(self, watcher: "Watcher", step: int) -> None:
        """What the step that was done last has left in the tensors that are watched."""
        if due(step, watcher.every) or step >= self.config.train.steps:
            for event in await watcher.look(step):
                self.host.emit(event)

    def take(self, metrics: "list[Any]", seconds: float) -> None:
        """Take note of a block's metrics."""
        if metrics:
            self.progress.step += len(metrics)
            self.progress.tokens_seen += len(metrics) * self.tokens_per_step
            self.progress.validation_due = self.validates_at(self.progress.step)
            self.report(metrics, seconds)

    def keep_pace(self, done: int, seconds: float) -> None:
        """Give the run another length where the one it has does not fit its time. No step is under way."""
        if self.pace is None or done == 0:
            return
        step, now = self.progress.step, self.host.now()
        self.pace.add(done, seconds, now)
        steps = self.pace.fitting(self.config.train, step, now)
        if steps != self.config.train.steps:
            before = self.config.train.steps
            self.config = self.config.replace(steps=steps)
            self.engine.retime(steps)
            self.progress.validation_due = self.validates_at(step)
            self.host.emit({"event": "retime", "step": step, "steps": steps, "before": before})

    def validates_at(self, step: int) -> bool:
        train = self.config.train
        return self.validating and (step == train.steps or due(step, train.eval_every))

    def report(self, metrics: "list[Any]", seconds: float) -> None:
        """Tell the host of each step, and stop a run whose loss has left the track.

        In a tab this is slow Python beside a fast GPU: what is done here for every step is little.
        """
        train = self.config.train
        rows = []
        bad = None
        for step, loss, grad_norm in metrics:
            self.exploded = self.exploded + 1 if loss > EXPLODED_LOSS else 0
            if not math.isfinite(loss + grad_norm) or self.exploded >= EXPLODED_STEPS:
                bad = self.diverged(step, symptom(loss, grad_norm))
                break
            rows.append((step, loss, grad_norm, learning_rate(train, step)))
        if rows:
            self.progress.loss = rows[-1][1]
            self.progress.history.add_all(rows)
            self.host.emit_steps(Block(rows, seconds, self.tokens_per_step, train.steps))
        if self.coach is not None:
            for step, loss, grad_norm, _ in rows:
                self.advise(step, self.coach.step(step, loss, grad_norm))
        if bad is not None:
            raise bad

    def advise(self, step: int, advice: "tuple[str, str] | None") -> None:
        if advice is not None:
            self.host.emit({"event": "advice", "step": step, "kind": advice[0], "text": advice[1]})

    def diverged(self, step: int, what: str) -> Diverged:
        return Diverged(divergence_sentence(self.config, step, what, self.last["step"]))

    async def evaluate(self, last: bool) -> bool | None:
        """Measure the validation loss, and hold the exam where there is one; whether the model is the best so far.

        None: a stop came into it. Nothing of it counts then, and the run that goes on from here begins with it.
        """
        loss = await validate(self.engine, self.stops, self.host.now, self.batch_rate)
        if loss is None:
            return None
        if self.exam is None:
            return self.judge(loss)
        self.require_finite(loss)
        right = await self.examine(self.exam, last)
        return None if right is None else self.judge(loss, right)

    def require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self.diverged(self.progress.step, f"the validation loss is {loss}")

    def judge(self, loss: float, right: int | None = None) -> bool:
        """Take note of a validation, and of how many questions were answered right; whether the model is the best so
        far."""
        self.require_finite(loss)
        progress = self.progress
        best = is_better(loss, right, progress.best_val, progress.best_right)
        if best:
            progress.best_val, progress.best_step, progress.evals_since_best = loss, progress.step, 0
            progress.best_right = right
        else:
            progress.evals_since_best += 1
        progress.validation_due = False
        event = {"event": "eval", "step": progress.step, "val_loss": loss, "best": best}
        normal = self.coach.normal(progress.step) if self.coach is not None else None
        if normal is not None:
            event["band"] = list(normal)
        self.host.emit(event)
        if self.coach is not None:
            self.advise(progress.step, self.coach.validated(progress.step, loss))
        return best

    async def examine(self, exam: Exam, last: bool) -> int | None:
        """Ask some of the questions, at the end all of them: how many of the first were answered right.

        That tells the best model, for the loss counts the questions as well, which nobody can foretell.
        """
        try:
            result = await exam.take(self.engine, len(exam.questions) if last else ON_THE_WAY, self.stops)
        except NotFinite:
            raise self.diverged(self.progress.step, "the model's logits are not finite") from None
        if result is None:
            return None
        event = exam_facts(result)
        event.update({"event": "exam", "step": self.progress.step})
        self.progress.accuracy = event["accuracy"]
        self.host.emit(event)
        return int(result.hits[:ON_THE_WAY].count(True))

    def frame_due(self) -> bool:
        progress = self.progress
        made = bool(progress.film) and progress.film[-1][0] == progress.step
        return self.has_frame(progress.step) and not made

    def has_frame(self, step: int) -> bool:
        return self.config.train.sample_every > 0 and in_film(step)

    def affords_a_sample(self) -> bool:
        return self.sampling <= max(SAMPLE_SECONDS, SAMPLE_SHARE * (self.host.now() - self.began))

    async def sample(self, ends: bool) -> None:
        """Let the model write. A text that a stop comes into is dropped.

        Checkpoints keep the film's frames and the sample of the run's end. Whether there is another on the way, and
        whether a frame is longer than it must be, depends on the clock, and equal runs must give equal files.
        """
        host, prompt, settings = self.host, self.sample_prompt, self.sample_settings
        frame = self.frame_due()
        if not ends:
            most = settings.tokens if self.pace is None else self.pace.sampled
            if frame and not await self.engine.agree(self.affords_a_sample()):
                most = 0
            settings = settings.replace(tokens=min(settings.tokens, max(most, self.frame_bytes if frame else 1)))
        began = host.now()
        go_on = lambda made: not host.should_stop()  # noqa: E731
        try:
            made = await generate(self.engine, self.config.model.ctx, prompt, settings, (), go_on, host.now)
        except NotFinite:
            raise self.diverged(self.progress.step, "the model's logits are not finite") from None
        took = host.now() - began
        self.sampling += took
        if frame and self.pace is not None:
            self.pace.filmed(took)
        if host.should_stop():
            return
        text = decode(made)
        if frame:
            self.progress.film.append([self.progress.step, decode(made[: self.frame_bytes])])
        if ends:
            self.progress.sample = text
        self.host.emit({"event": "sample", "step": self.progress.step, "text": text})

    async def save(self, kind: str) -> None:
        if self.host.keeps(kind):
            await self.keep(kind, await self.engine.export_state(), self.progress)

    async def save_proven(self) -> None:
        """Save the state that was set aside, once the steps behind it have shown that it is sound."""
        if self.unproven is not None and not self.exploded:
            state, stood, kinds = self.unproven
            self.unproven = None
            for kind in kinds:
                await self.keep(kind, state, Progress.from_dict(stood))

    async def keep(self, kind: str, state: "Any", progress: Progress) -> None:
        if await self.host.save(kind, state, progress) is False:
            return
        if kind == "last":
            self.last = progress.as_dict()
        self.host.emit({"event": "checkpoint", "step": progress.step, "kind": kind})


def symptom(loss: float, grad_norm: float) -> str:
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    if not math.isfinite(grad_norm):
        return f"the gradient's norm is {grad_norm}"
    return f"the loss is {loss:.2f}, far above an untrained model's {LN_VOCAB:.2f}"


def divergence_sentence(run: RunConfig, step: int, what: str, kept: int) -> str:
    train, recipe = run.train, recipe_like(run)
    usual = float(tuned(preset_like(run.model), recipe).get("lr", TrainConfig().lr))
    if train.grad_clip == 0:
        cause = "gradient clipping is off (grad_clip 0): turn it on, or lower the learning rate"
    elif train.lr > usual:
        cause = f"the learning rate {train.lr:g} is likely too high: try {usual:g}, as the recipe {recipe} has it"
    else:
        cause = f"try a lower learning rate than {train.lr:g}, or warm-up steps"
    return f"training stopped at step {step} because {what}; {cause}. The model as of step {kept} is kept"
