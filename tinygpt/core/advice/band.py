"""What is normal: losses of sound runs after as many tokens, of the same recipe and preset, on about as much text.

The numbers come from our own finished runs (lab/law/banding.py), each divided by what its text's hardness does
to a loss. How hard the text at hand is nobody has measured, so a band is as wide as the texts of people differ.
"""

import math

from tinygpt.core.advice.band_numbers import BANDS
from tinygpt.core.presets import preset, preset_like, recipe_like

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tinygpt.core.config import RunConfig

    Band = Callable[[int], "tuple[float, float] | None"]  # the lowest and highest sound loss after so many tokens
    Point = tuple[int, float, float]  # tokens seen, lowest and highest loss, for a text of usual hardness

CHANCE = 0.06  # of a loss: what seeds, small validations and other lengths of a run come to
EASIEST, HARDEST = 0.82, 1.15  # what a text's hardness makes of a loss
BATCHES = 4.0  # times the recipe's batch, or a part of it: further off, tokens do not compare


def band_of(run: "RunConfig", train_bytes: int) -> "Band | None":
    """None where no run of ours is like this one."""
    name, recipe = preset_like(run.model), recipe_like(run)
    known = BANDS.get(recipe, {}).get(name)
    usual = preset(name, recipe, train_bytes)
    if known is None or run.model != usual.model:
        return None
    times = run.train.batch * run.train.grad_accum / usual.train.batch
    if not 1.0 / BATCHES <= times <= BATCHES:
        return None
    points = min(known, key=lambda of: abs(math.log(of[0] / max(1, train_bytes))))[1]

    def band(tokens: int) -> "tuple[float, float] | None":
        """A larger batch makes fewer steps of as many tokens: it may be as far as the recipe's after those steps."""
        steps_alone = tokens / times
        lowest = between(points, max(tokens, steps_alone), 1)
        highest = between(points, min(tokens, steps_alone), 2)
        if lowest is None or highest is None:
            return None
        return EASIEST * (1.0 - CHANCE) * lowest, HARDEST * (1.0 + CHANCE) * highest

    return band


def between(points: "tuple[Point, ...]", tokens: float, which: int) -> "float | None":
    """A point's loss, where need be from the two beside it; beyond the last one the last one's."""
    if tokens < points[0][0]:
        return None
    for i in range(1, len(points)):
        before, behind = points[i - 1], points[i]
        if tokens <= behind[0]:
            share = math.log(tokens / before[0]) / math.log(behind[0] / before[0])
            return float(before[which] + share * (behind[which] - before[which]))
    return float(points[-1][which])
