"""The training loop's surroundings in a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tinygpt.cli.display import Display
from tinygpt.cli.interrupts import StopRequest
from tinygpt.cli.output import Output
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.trainer import Diverged, Host, Trainer

FINAL_STEPS = 20  # the final train loss is the mean of so many


class ScreenHost(Host):
    """Shows the loop's events, and stops it when a signal asked for that or nobody can be shown them any more."""

    def __init__(self, output: Output, display: Display, stop: StopRequest) -> None:
        self.output = output
        self.display = display
        self.stop = stop
        self.last_losses: deque[float] = deque(maxlen=FINAL_STEPS)

    def now(self) -> float:
        return time.perf_counter()

    def emit(self, event: dict[str, Any]) -> None:
        if event["event"] == "step":
            self.last_losses.append(event["loss"])
        self.display.event(event)

    def should_stop(self) -> bool:
        return self.stop.wanted or self.output.lost

    def train_loss(self) -> float | None:
        return sum(self.last_losses) / len(self.last_losses) if self.last_losses else None


def run_to_end(trainer: Trainer, on_end: Callable[[str], None]) -> str:
    """Run the loop; `on_end` is told why it ended, whatever the reason, before an error goes on its way."""
    reason = "failed"
    try:
        reason = run_now(trainer.run())
    except (Diverged, KeyboardInterrupt) as ending:
        reason = "diverged" if isinstance(ending, Diverged) else "interrupted"
        raise
    finally:
        on_end(reason)
    return reason


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
