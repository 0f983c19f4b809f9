"""A replay beside the capsule it is of: whether it is the text, and whether the losses agree.

The same engine gives the same bits. Another one adds up in another order, and its losses drift: over the first steps by
less than DRIFT_LIMIT, which `tinygpt parity` holds all engines to. Later the two are like two roads to the same place:
the losses of single steps part, their means over a stretch do not (docs/capsule.md has the measurement).

What a capsule says of its engine is a stranger's word. So a replay calls it equal for equal bits alone; the claim only
decides whether other bits refute it or prove nothing here.
"""

from collections import namedtuple

from tinygpt.core.capsule.content import Capsule, stride_of
from tinygpt.core.engine.rate import Rate
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import bits_float, float_bits
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers import check_slots
from tinygpt.core.train.blocks import BLOCK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

DRIFT_LIMIT = 0.001  # of the loss of a step, relative
STRETCH = 50  # steps that are held to it, and over which losses are averaged behind them
STRETCH_LIMIT = 0.01  # of such a mean
SUMMED = 1e-5  # of a loss: what the order of its own sum may change, when all else is equal
LEAST_TOLD = 1e-6  # of a drift
NOT_ISOLATED = " (not cross-origin"  # how a remark begins that a tab's WebAssembly makes on itself

# What a replay can say: all that it compared is equal to the bit; it is close, as on another engine; it is not.
EQUAL, UNPROVED, DIFFERENT = "equal", "unproved", "different"
HEADS = {EQUAL: "Exactly equal.", UNPROVED: "Not proved on this engine.", DIFFERENT: "They do not agree."}

# verdict: one of the three;  head, text: in words;  weights: whether those of the last step are equal, None where they
# were not compared;  steps: compared;  drift: the largest, at step `at`.
Verdict = namedtuple("Verdict", ("verdict", "head", "text", "weights", "steps", "drift", "at"))


def drift(loss: float, other: float) -> float:
    """How far a loss is from another, relative to that one; what is no number is infinitely far."""
    off = abs(loss - other) / abs(other) if other else (0.0 if loss == other else 1.0)
    return off if off == off else float("inf")


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= LEAST_TOLD else f"less than {100 * LEAST_TOLD:g} %"


def arithmetic_of(device: str) -> str:
    """Of what an engine says of itself, what its results depend on: neither threads nor memory, nor the browser."""
    parts = device.split(NOT_ISOLATED)[0].split(", ")
    aside = ("thread", "threads", "MB", "KB", "GB", "B", "memory")
    return ", ".join([part for part in parts if part.split(" ")[-1] not in aside and not part.startswith("in ")])


def require_text(capsule: Capsule, sha256: str, size: int) -> None:
    """Refuse another text than the run learnt from."""
    text = capsule.text
    if sha256 != text.sha256:
        raise TinyGPTError(
            f"this is another text than the run learnt from: it has {size:,} bytes and the sha256 {sha256[:12]}…, "
            f"that of the run ('{text.name}') {text.bytes:,} bytes and {text.sha256[:12]}…"
        )
    if size != text.bytes:
        raise TinyGPTError(f"the text has {size:,} bytes, and the capsule states {text.bytes:,}: it is damaged")


def require_start(capsule: Capsule, what: str, model: "Any", slots: "Sequence[str]") -> None:
    """Refuse a checkpoint that the run cannot go on from."""
    if model != capsule.config.model:
        raise TinyGPTError(f"{what} is another model than the capsule's; give a checkpoint of its run")
    if not slots:
        raise TinyGPTError(f"{what} holds weights alone, and nothing of the optimizer to go on with; give another")
    check_slots(capsule.config.train, list(slots))


def stretch(capsule: Capsule, first: int, steps: "int | None") -> int:
    """The last step of a replay that begins behind step `first` and has so many; without a number, all there are."""
    if not 0 <= first < capsule.steps:
        raise TinyGPTError(
            f"the capsule tells of {capsule.steps:,} steps, so there is nothing to replay behind {first:,}"
        )
    if steps is None:
        return int(capsule.steps)
    if not 1 <= steps <= capsule.steps - first:
        raise TinyGPTError(f"steps to replay must be from 1 to {capsule.steps - first:,}, not {steps:,}")
    return first + steps


class Worst:
    """The largest drift of all that were added."""

    def __init__(self) -> None:
        self.drift, self.at = 0.0, 0
        self.pair = (0.0, 0.0)

    def add(self, step: int, mine: float, theirs: float) -> None:
        off = drift(mine, theirs)
        if self.at == 0 or off > self.drift:
            self.drift, self.at, self.pair = off, step, (mine, theirs)

    def most(self) -> str:
        return f"{percent(self.drift)} off at most, at step {self.at:,}"


class Stretches:
    """The means of losses, so many at a time; what is left over at the end counts with those before it."""

    def __init__(self) -> None:
        self.worst = Worst()
        self.before: list[tuple[float, float]] = []
        self.open: list[tuple[float, float]] = []

    def add(self, step: int, mine: float, theirs: float) -> None:
        self.open.append((mine, theirs))
        if len(self.open) == STRETCH:
            self.close(step, self.open)
            self.before, self.open = self.open, []

    def close(self, step: int, pairs: "list[tuple[float, float]]") -> None:
        if pairs:
            self.worst.add(
                step, sum([pair[0] for pair in pairs]) / len(pairs), sum([pair[1] for pair in pairs]) / len(pairs)
            )

    def end(self, step: int) -> Worst:
        self.close(step, self.before + self.open)
        return self.worst


class Comparison:
    """Takes the losses of a replay as they come."""

    def __init__(self, capsule: Capsule, tinygpt: str, device: str) -> None:
        """`tinygpt` is the version that replays, `device` what computes, in words."""
        self.capsule = capsule
        self.stride = stride_of(capsule.steps)
        self.tinygpt = tinygpt
        self.here = arithmetic_of(device)
        self.there = arithmetic_of(capsule.device)
        self.same = self.here == self.there and tinygpt == capsule.tinygpt
        self.compared = self.unequal = self.last = 0
        self.parted = 0  # the first step whose loss differs
        self.any, self.early, self.late = Worst(), Worst(), Stretches()

    def take(self, step: int, loss: float) -> "float | None":
        """What the capsule has for that step; None where it tells nothing of it."""
        place = (step - 1) // self.stride
        if (step - 1) % self.stride or place >= len(self.capsule.losses):
            return None
        stated = bits_float(float_bits(self.capsule.losses[place]))
        self.compared += 1
        self.last = step
        if float_bits(loss) != float_bits(stated):
            self.unequal += 1
            self.parted = self.parted or step
        self.any.add(step, loss, stated)
        (self.early if self.compared <= STRETCH else self.late).add(step, loss, stated)
        return stated

    def verdict(self, weights: "str | None" = None) -> Verdict:
        """`weights`: the sha256 of those of the capsule's last step, where the replay has come to it."""
        proved = None if weights is None else weights == self.capsule.weights
        verdict, text = self.judgement(proved)
        return Verdict(verdict, HEADS[verdict], text, proved, self.compared, self.any.drift, self.any.at)

    def judgement(self, proved: "bool | None") -> "tuple[str, str]":
        """The verdict and its reasons. `proved`: whether the weights at the end are equal, None: they are not known."""
        if self.compared == 0:
            return UNPROVED, "No loss was compared: replay more steps."
        losses = "The loss matches" if self.compared == 1 else f"All {self.compared:,} losses match"
        matched = f"{losses} the capsule exactly"
        if self.unequal == 0:
            if proved:
                return EQUAL, f"{matched}, and so do the weights at the end."
            if proved is None:
                return EQUAL, f"{matched}. The weights were not compared: replay to the last step for that."
            if self.same:
                return DIFFERENT, f"{matched}, but the weights at the end differ, and the same engine gives equal ones."
            return UNPROVED, f"{matched}, but the weights at the end differ. {self.others()}"
        if proved and not self.any.drift < SUMMED:
            return DIFFERENT, f"{self.off(self.any)}, but the weights at the end match exactly: its losses are false."
        ending = "were not compared" if proved is None else "match exactly" if proved else "differ"
        ending = f"The weights at the end {ending}."
        if self.same:
            return DIFFERENT, f"{self.off(self.any)}, and the same engine gives equal losses. {ending}"
        late = self.late.end(self.last)
        if not self.early.drift < DRIFT_LIMIT:
            reason = f"and another engine may be {100 * DRIFT_LIMIT:g} % off"
            return DIFFERENT, f"{self.off(self.early)}, {reason}. {ending} {self.others()}"
        if not late.drift < STRETCH_LIMIT:
            reason = f"on average over {STRETCH} steps, and another engine may be {100 * STRETCH_LIMIT:g} % off"
            return DIFFERENT, f"At step {late.at:,} the loss is {values(late)} {reason}. {ending} {self.others()}"
        first = min(self.compared, STRETCH)
        text = f"The losses of {first} steps agree within {100 * DRIFT_LIMIT:g} % ({self.early.most()})"
        if self.compared > STRETCH:
            more = f"those of {self.compared - first:,} more on average within {100 * STRETCH_LIMIT:g} %"
            text += f", and {more} ({late.most()})"
        return UNPROVED, f"{text}. {ending} {self.others()}"

    def off(self, worst: Worst) -> str:
        """Where the losses part, and where they are furthest apart."""
        if self.unequal == 1:
            return f"At step {worst.at:,} the loss is {values(worst)}"
        if self.parted == worst.at:
            return f"At step {worst.at:,} the losses differ for the first time, and the most: {values(worst)}"
        first = f"At step {self.parted:,} the losses differ for the first time"
        return f"{first}, and at step {worst.at:,} the most: {values(worst)}"

    def others(self) -> str:
        if self.here == self.there:
            return f"This is TinyGPT {self.tinygpt}, and the capsule says that {self.capsule.tinygpt} made it."
        return f"This is {self.here}, and the capsule says that {self.there or 'an unknown engine'} made it."


def values(worst: Worst) -> str:
    mine, theirs = worst.pair
    return f"{mine:.6f} here and {theirs:.6f} in the capsule, {percent(worst.drift)} off"


async def replay(
    engine: "Any",
    lengths: "Sequence[Sequence[int]]",
    first: int,
    last: int,
    now: "Callable[[], float]",
    told: "Callable[[list[Any]], None]",
    stopping: "Callable[[], bool]" = bool,
) -> int:
    """Train an engine that has its text and stands at step `first`, to step `last`, as long as the capsule's
    `lengths` have it at each; every block's metrics are told.

    The step that was reached: an earlier one where it was to stop.
    """
    step, rate = first, Rate()
    ahead = list(lengths)
    while step < last and not stopping():
        while ahead and ahead[0][0] <= step:
            engine.retime(ahead.pop(0)[1])
        most = min(last - step, RING, ahead[0][0] - step if ahead else RING)
        count = rate.fitting(BLOCK_SECONDS, most) if engine.block is None else min(most, int(engine.block))
        began = now()
        done = await engine.train(count)
        metrics = await engine.read_metrics()
        rate.add(done, now() - began)
        step += done
        told(metrics)
        if await engine.agree(done < count):
            break
    return step
