"""How fast this machine is at a run: a few real steps, a part of a validation, a few bytes written."""

from collections import namedtuple

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.rate import Rate
from tinygpt.core.ops.record import RING
from tinygpt.core.train.film import FRAME_BYTES, frames_until
from tinygpt.core.train.trainer import SAMPLE_SECONDS, SAMPLE_SHARE
from tinygpt.core.write.sampler import generate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.core.config import RunConfig

PART_SECONDS = 0.1  # steps are asked for in blocks of about this long, as in training
VALIDATED_BATCHES = 4
WRITTEN_BYTES = 16

# Seconds: of opening an engine and all that its first step waits for (compilers, memory), of a step, of a batch of a
# validation, of a byte of a sample.
Speed = namedtuple("Speed", ("start", "step", "batch", "byte"))


async def measure(
    engine: "Any", opened: float, now: "Callable[[], float]", seconds: float, validating: bool = True
) -> Speed:
    """Of an engine that has its texts, since a moment ago. Steps are made for about `seconds`, one at least."""
    await engine.train(1)
    await engine.read_metrics()
    start = now() - opened
    steps = Rate()
    before = now()
    until = before + seconds
    while not steps.readings or before < until:
        count = steps.fitting(PART_SECONDS, RING) if engine.block is None else int(engine.block)
        done = await engine.train(count)
        await engine.read_metrics(1 if engine.ahead else 0)  # a GPU has the next block before this one is read
        steps.add(done, now() - before)
        before = now()
    await engine.read_metrics()
    batches = min(VALIDATED_BATCHES, engine.config.train.eval_batches)
    began = now()
    if validating:
        await engine.validate(0, batches)
        await engine.read_validation()
    validated = now()
    settings = SampleConfig(tokens=WRITTEN_BYTES)
    written = await generate(engine, engine.config.model.ctx, b"\n", settings, now=now)
    return Speed(start, steps.each(), (validated - began) / batches, (now() - validated) / max(1, len(written)))


def duration(run: "RunConfig", first: int, validating: bool, speed: Speed) -> float:
    """Seconds that a run takes from step `first` to its end, with its validations and samples."""
    train = run.train
    training = (train.steps - first) * speed.step
    validations = times_due(first, train.steps, train.eval_every) if validating else 0
    validation = validations * train.eval_batches * speed.batch
    sample, film = SampleConfig().tokens * speed.byte, 0.0
    if train.sample_every:
        film = (frames_until(train.steps) - frames_until(first)) * FRAME_BYTES * speed.byte
    on_the_way = (times_due(first, train.steps, train.sample_every) - 1) * sample
    most = max(SAMPLE_SECONDS, SAMPLE_SHARE * (training + validation)) + sample
    return float(speed.start + training + validation + film + min(on_the_way, most) + sample)


def times_due(first: int, last: int, every: int) -> int:
    """How often it is: every so many steps, and at the end in any case."""
    return last // every - first // every + (1 if last % every else 0) if every else 1
