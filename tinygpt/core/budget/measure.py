"""How fast this machine is at a run: a few real steps, a part of a validation, a few bytes written."""

from collections import namedtuple

from tinygpt.core.config import SampleConfig
from tinygpt.core.ops.record import RING
from tinygpt.core.run.rate import Rate
from tinygpt.core.run.sampler import generate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PART_SECONDS = 0.1  # steps are asked for in blocks of about this long, as in training
VALIDATED_BATCHES = 4
WRITTEN_BYTES = 16

# Seconds: of opening an engine and all that its first step waits for (compilers, memory), of a step, of a batch of a
# validation, of a byte of a sample.
Speed = namedtuple("Speed", ("start", "step", "batch", "byte"))


async def measure(engine: "Any", opened: float, now: "Callable[[], float]", seconds: float) -> Speed:
    """Of an engine that has its texts, since a moment ago. Steps are made for about `seconds`, one at least."""
    await engine.train(1)
    await engine.read_metrics()
    start = now() - opened
    steps = Rate()
    until = now() + seconds
    while not steps.readings or now() < until:
        count = steps.fitting(PART_SECONDS, RING) if engine.block is None else int(engine.block)
        began = now()
        done = await engine.train(count)
        await engine.read_metrics()
        steps.add(done, now() - began)
    batches = min(VALIDATED_BATCHES, engine.config.train.eval_batches)
    began = now()
    await engine.validate(0, batches)
    await engine.read_validation()
    validated = now()
    settings = SampleConfig(tokens=WRITTEN_BYTES)
    written = await generate(engine, engine.config.model.ctx, b"\n", settings, now=now)
    return Speed(start, steps.each(), (validated - began) / batches, (now() - validated) / max(1, len(written)))
