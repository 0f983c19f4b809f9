"""A run that ends on time: how many steps it can have, as it turns out how long they take."""

from tinygpt.core.advice.choose import MARGIN
from tinygpt.core.engine.rate import Rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.advice.choose import Option
    from tinygpt.core.config import TrainConfig

SMALLEST_CHANGE = 0.02  # of the steps: less is not worth another schedule
BETWEEN_CHANGES = 0.05  # of the steps
MOST = 1.25  # a run is never lengthened by more than this factor


class Pace:
    """Once, when the warm-up is over and no rate yet depends on the run's length, steps are fitted to the time left.

    A run that would end too late for all that is shortened again, and its schedule goes on as that of the shorter run.
    Where a run was planned shorter than the time allows, it is never lengthened.
    """

    def __init__(self, now: float, deadline: float, option: "Option") -> None:
        steps = option.run.train.steps
        self.deadline = deadline - option.end - option.film
        self.until = self.deadline - MARGIN * (deadline - now)
        self.film = option.film  # seconds that are set aside for frames that are still to come
        self.aside = option.aside / steps  # seconds per step of validations and samples on the way
        self.most = int(MOST * steps) if steps == option.all_steps else steps
        self.sampled: int = option.sampled  # bytes of a sample on the way; 0: there is none
        self.frame: int = option.frame  # bytes of a frame of the film
        self.changed = 0  # the step of the last change; 0: there was none yet
        self.began = 0.0  # when the first block had ended: it also waits for what is made once
        self.steps = 0  # since then
        self.seconds = 0.0
        self.lately = Rate()

    def add(self, steps: int, seconds: float, now: float) -> None:
        """A block of steps is done."""
        if self.began == 0.0:
            self.began = now
            return
        self.steps += steps
        self.seconds += seconds
        self.lately.add(steps, seconds)

    def filmed(self, seconds: float) -> None:
        """A frame was made. Most are at the run's start: what they take says nothing about later steps."""
        planned = min(seconds, self.film)
        self.film -= planned
        self.deadline += planned
        self.until += planned
        if self.began:
            self.began += seconds

    def fitting(self, train: "TrainConfig", step: int, now: float) -> int:
        """How many steps the run should have."""
        if not self.steps or step >= train.steps or step < train.warmup:
            return train.steps
        each = self.each(train, step, now)
        fit = step + max(0, int((self.until - now) / each))
        if self.changed == 0:
            self.changed = step
            near = abs(fit - train.steps) < SMALLEST_CHANGE * train.steps
            return train.steps if near else min(fit, max(self.most, train.steps))
        late = now + each * (train.steps - step) > self.deadline
        lately = step - self.changed < BETWEEN_CHANGES * train.steps
        if not late or (lately and now < self.deadline):
            return train.steps
        self.changed = step
        return fit

    def each(self, train: "TrainConfig", step: int, now: float) -> float:
        """Seconds of a step with its share of what is done aside: halfway from how it was to how it is lately."""
        validations = (step - 1) // train.eval_every  # that of this very step is still to come
        if validations:
            self.aside = max(0.0, now - self.began - self.seconds) / (validations * train.eval_every)
        return float(0.5 * (self.seconds / self.steps + self.lately.each()) + self.aside)
