"""The validation loop over an engine's batches."""

from tinygpt.core.engine.rate import HEARD, Rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any


async def validate(
    engine: "Any",
    stops: "Callable[[bool], Awaitable[bool]] | None" = None,
    now: "Callable[[], float] | None" = None,
    rate: Rate | None = None,
) -> float | None:
    """The mean loss over the validation's windows, the same ones every time.

    `stops` is asked between two parts, and told whether the engine has heard a stop by itself. Where it says so all is
    dropped, and there is no loss: that of a part would be another number. With a clock a part is as many batches as
    take little time by their `rate`, unless the engine says how many.
    """
    batches, done, loss = int(engine.config.train.eval_batches), 0, 0.0
    while done < batches:
        part = batches - done
        if engine.block is not None:
            part = min(part, engine.block)
        elif rate is not None:
            part = rate.fitting(HEARD, part)
        began = now() if now is not None else 0.0
        made = await engine.validate(done, part)
        loss = await engine.read_validation()
        if now is not None and rate is not None:
            rate.add(made, now() - began)
        done += made
        if done < batches and stops is not None and await stops(made < part):
            return None
    return loss
