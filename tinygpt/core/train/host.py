"""What the training loop needs of its surroundings, and tells them."""

from tinygpt.core.train.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Block:
    """Steps that were done one behind the other, as rows of step, loss, gradient's norm and learning rate."""

    def __init__(self, rows: "list[tuple[int, float, float, float]]", seconds: float, tokens: int, steps: int) -> None:
        """`seconds` and `tokens` are those of a step, `steps` the run's."""
        self.rows = rows
        self.seconds = seconds
        self.tokens_per_s = tokens / seconds if seconds > 0 else 0.0
        self.steps = steps

    def eta_s(self, step: int) -> float:
        return (self.steps - step) * self.seconds


class Host:
    """What the loop needs of its surroundings. The CLI and the page each extend it."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        raise NotImplementedError

    def emit(self, event: "dict[str, Any]") -> None:
        """Take note of a step, eval, exam, sample, checkpoint, watch or advice event (the key "event" names it)."""

    def emit_steps(self, block: "Block") -> None:
        """Take note of a block of steps."""
        for step, loss, grad_norm, lr in block.rows:
            self.emit(
                {
                    "event": "step",
                    "step": step,
                    "loss": loss,
                    "grad_norm": grad_norm,
                    "lr": lr,
                    "tokens_per_s": block.tokens_per_s,
                    "eta_s": block.eta_s(step),
                }
            )

    def should_stop(self) -> bool:
        return False

    def waiting(self) -> bool:
        """Whether something else is wanted of the engine, or its state, once no block is under way."""
        return False

    def checkpoint_due(self, step: int, every: int) -> bool:
        return due(step, every)

    def keeps(self, kind: str) -> bool:
        """Whether there is any use in saving a state when a run begins, ends or has a new best, or one to be kept."""
        return True

    async def save(self, kind: str, state: "Any", progress: Progress) -> bool | None:
        """Keep the engine's exported state as the "last" or the "best" checkpoint, or as one that is "kept" for good.

        False: it could not be, and what was saved before stays.
        """

    async def go_back(self) -> None:
        """The run has diverged. Where the engine is used further, give it the state of the "last" checkpoint."""


def due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
