"""Which run makes the most of so many seconds.

The likely size is measured, and its neighbours where they could end lower: for each the law says what the steps that
there is time for would come to. Over a wide range of machines that is one size, and the run begins at once.
"""

from collections import namedtuple

from tinygpt.core.advice.law import RECIPE, predict
from tinygpt.core.advice.law_numbers import LAWS
from tinygpt.core.advice.measure import Speed, measure
from tinygpt.core.config import validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.optimizers import slot_names
from tinygpt.core.presets import DEFAULT_PRESET, cut_short, preset, preset_names
from tinygpt.core.train.film import FRAME_BYTES, frames_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.core.config import RunConfig

MARGIN = 0.03  # of the time is not planned with: machines have their moods
MEASURED_SHARE = 0.005  # of the time goes into the steps of one measurement: `Pace` corrects what that leaves unknown,
SHORTEST_MEASURED, LONGEST_MEASURED = 0.2, 1.5  # but no less and no more than so many seconds
# The next size takes about so many times as long to measure; one that would take more than this share is left out.
NEXT_TAKES, NEXT_SHARE = 3.0, 0.1
WORSE = 1.03  # a size that is predicted this much worse than the best so far is the last that is measured
APART = 0.01  # of a loss: sizes that are predicted closer together are as good as each other, the law being 3 % off
VALIDATED_BYTES = 32768  # of a validation, at least: less would leave too much to chance
VALIDATIONS, VALIDATED_SHARE = 10, 0.1  # so many on the way, unless they would take more than this share of the time
# On slow machines samples and the film's frames are shorter, down to so many bytes, before samples are fewer; frames
# are never fewer.
SHORTEST_SAMPLE, SHORTEST_FRAME = 40, 8
SAVED_PER_SECOND = 2e8  # bytes: what a disk is trusted with. A validation may leave two checkpoints.
FEWEST_STEPS = 20  # of which anything can be foretold
SHORTER = 0.8  # where a text would only be learned by heart, runs that are shorter by this factor are considered
DROPOUTS = (0.0, 0.15)
LARGEST_BATCH = 4  # times the recipe's: larger ones were not tried

# A run that fits the time. Of that, aside from its steps, the seconds that validations and samples take on the way and
# at its end; all_steps: as many as there is time for; sampled: the bytes of a sample on the way, 0: there is none;
# frame: those of a frame of the film; film: the seconds of all its frames.
Option = namedtuple(
    "Option", ("preset", "run", "prediction", "speed", "aside", "end", "all_steps", "sampled", "frame", "film")
)
# text: its TextFacts; names: presets to choose from, smallest first; stated: settings that are not to
# be chosen; sample_bytes: the length of a sample; samples: so many are wanted on the way, besides the film's frames,
# and may take that share of the time with them.
Asked = namedtuple("Asked", ("text", "val_bytes", "names", "stated", "sample_bytes", "samples", "share"))
SOME = 4, 0.05  # samples and their share, for who looks now and then


def sizes() -> "list[str]":
    """Presets that the law knows, smallest first."""
    return [name for name in preset_names() if name in LAWS.plain.sizes]


def measured_run(name: str, asked: Asked, batches: int = 1) -> "RunConfig":
    """A run of a size as it is measured: all but its length, with so many times the recipe's batch."""
    run = preset(name, RECIPE, asked.text.train_bytes)
    run = run.replace(batch=batches * run.train.batch).replace(**asked.stated)
    tokens = run.train.batch * run.model.ctx
    enough = max(run.train.eval_batches, -(-VALIDATED_BYTES // tokens))
    return run.replace(eval_batches=asked.stated.get("eval_batches", enough))


def runs_for(asked: Asked) -> "list[tuple[str, RunConfig]]":
    """Of the sizes for which there is text enough."""
    runs = [(name, measured_run(name, asked)) for name in asked.names]
    fit = [
        (name, run) for name, run in runs if asked.text.train_bytes > run.model.ctx and validates(run, asked.val_bytes)
    ]
    if not fit:
        shortest = min([run.model.ctx for _, run in runs]) + 1
        raise TinyGPTError(
            f"a timed run needs text to train on and held-out text to measure the loss, {shortest} bytes of each at "
            f"least; there are {asked.text.train_bytes:,} and {asked.val_bytes:,}: use a longer text"
        )
    return fit


def fitted(name: str, run: "RunConfig", speed: "Speed", seconds: float, asked: Asked) -> "Option | None":
    """The best run of a size within that time, if there is any."""
    validation = run.train.eval_batches * speed.batch
    saving = 4 * (1 + len(slot_names(run.train))) * parameter_count(run.model) / SAVED_PER_SECOND
    sample = asked.sample_bytes * speed.byte
    end = validation + 2 * saving + sample
    left = (1.0 - MARGIN) * seconds - speed.start - end
    each = validation + 2 * saving
    validations = min(VALIDATIONS, max(0, int(VALIDATED_SHARE * left / each)))
    frames = frames_until(max(0, int(left / speed.step)))
    frame, samples, sampled = samples_within(asked.share * left, frames, speed.byte, asked)
    aside = validations * each + samples * sampled * speed.byte
    film = frames * frame * speed.byte
    all_steps = int((left - film - aside) / speed.step)
    best = None
    steps = all_steps
    while steps >= FEWEST_STEPS:
        changes: dict[str, float] = {
            "steps": steps,
            "eval_every": -(-steps // (validations + 1)),
            "sample_every": -(-steps // max(1, samples)),
            "checkpoint_every": 0,
        }
        better = False
        for dropout in DROPOUTS:
            changes["dropout"] = dropout
            changes.update(asked.stated)
            shaped = cut_short(run, changes)
            prediction = predict(LAWS, name, shaped, asked.text)
            if best is None or prediction.loss < best.prediction.loss:
                written = sampled, frame, film
                best, better = Option(name, shaped, prediction, speed, aside, end, all_steps, *written), True
        if not better:
            break
        steps = int(SHORTER * steps)
    return best


def samples_within(seconds: float, frames: int, byte: float, asked: Asked) -> tuple[int, int, int]:
    """The bytes of each of the film's frames, how many samples there are besides, and the bytes of each of them."""
    if asked.stated.get("sample_every") == 0:
        return 0, 0, 0
    affordable = int(seconds / max(byte, 1e-9))
    frame = min(FRAME_BYTES, asked.sample_bytes, max(SHORTEST_FRAME, affordable // frames))
    affordable = max(0, affordable - frames * frame)
    samples = min(asked.samples, affordable // min(SHORTEST_SAMPLE, asked.sample_bytes))
    return frame, samples, min(asked.sample_bytes, affordable // samples) if samples else 0


class Survey:
    """Measures sizes on engines that it is given, and keeps what would come of each."""

    def __init__(
        self,
        asked: Asked,
        open_engine: "Callable[[RunConfig], Any]",
        now: "Callable[[], float]",
        deadline: float,
        on_option: "Callable[[Option], None] | None" = None,
    ) -> None:
        self.asked = asked
        self.open_engine = open_engine  # a coroutine: the engine of a run, with its texts
        self.now = now
        self.deadline = deadline
        self.on_option = on_option
        self.measured: list[tuple[str, RunConfig, Speed]] = []
        self.options: list[Option] = []

    async def choose(self) -> Option:
        """The best of all, in the time that is left after measuring."""
        gpu = await self.measure_sizes()
        if gpu and self.options and "batch" not in self.asked.stated:
            await self.measure_batches()
        left = self.deadline - self.now()
        again = [fitted(name, run, speed, left, self.asked) for name, run, speed in self.measured]
        found = [option for option in again if option is not None]
        if not found:
            raise TinyGPTError(
                f"there is no time for {FEWEST_STEPS} steps of {runs_for(self.asked)[0][0]}; give it more minutes"
            )
        return best_of(found)

    async def measure_sizes(self) -> bool:
        """From the likely one up, then down, as long as the next could be better; whether a GPU did the steps."""
        runs = runs_for(self.asked)
        names = [name for name, _ in runs]
        first = names.index(DEFAULT_PRESET) if DEFAULT_PRESET in names else 0
        gpu, fault = False, None
        for way in (runs[first:], runs[:first][::-1]):
            nearest = self.measured[0] if self.measured else None
            for name, run in way:
                if nearest is not None and not self.could_be_better(name, run, nearest, gpu):
                    break
                began = self.now()
                try:
                    option, gpu = await self.measure(name, run)
                except (TinyGPTError, MemoryError) as error:
                    fault = error  # it takes more memory than there is
                    break
                nearest, took = self.measured[-1], self.now() - began
                if self.options and (option is None or loss_of(option) > WORSE * loss_of(best_of(self.options))):
                    break
                if NEXT_TAKES * took > NEXT_SHARE * (self.deadline - self.now()):
                    break
        if not self.measured and fault is not None:
            raise fault
        return gpu

    def could_be_better(self, name: str, run: "RunConfig", nearest: "tuple[str, RunConfig, Speed]", gpu: bool) -> bool:
        """Whether a size is worth measuring, by the work of its steps. A small step of a GPU's may be all waiting."""
        _, measured, speed = nearest
        times = work_of(run) / work_of(measured)
        if gpu:
            times = min(1.0, times)
        guess = Speed(speed.start, times * speed.step, times * speed.batch, times * speed.byte)
        option = fitted(name, run, guess, self.deadline - self.now(), self.asked)
        if option is None or not self.options:
            return option is not None
        return loss_of(option) < (1.0 - APART) * loss_of(best_of(self.options))

    async def measure_batches(self) -> None:
        """A GPU does more tokens per second in larger batches, to a point."""
        batches = 1
        while batches < LARGEST_BATCH:
            best = best_of(self.options)
            batches *= 2
            option, _ = await self.measure(best.preset, measured_run(best.preset, self.asked, batches))
            if option is None or loss_of(option) >= loss_of(best):
                break

    async def measure(self, name: str, run: "RunConfig") -> "tuple[Option | None, bool]":
        opened = self.now()
        total = self.deadline - opened
        seconds = min(LONGEST_MEASURED, max(SHORTEST_MEASURED, MEASURED_SHARE * total))
        engine = await self.open_engine(run)
        try:
            speed = await measure(engine, opened, self.now, seconds)
        finally:
            await engine.close()
        self.measured.append((name, run, speed))
        option = fitted(name, run, speed, self.deadline - self.now(), self.asked)
        if option is not None:
            self.options.append(option)
            if self.on_option is not None:
                self.on_option(option)
        return option, not engine.threads


def best_of(options: "list[Option]") -> Option:
    best = options[0]
    for option in options:
        if loss_of(option) < loss_of(best):
            best = option
    return best


def loss_of(option: Option) -> float:
    return float(option.prediction.loss)


def work_of(run: "RunConfig") -> int:
    """What a step computes, compared with another: its n-gram tables are only looked up."""
    return int(parameter_count(run.model.replace(ngrams="")) * run.train.batch * run.model.ctx)
