"""A run at a terminal: what is shown of it, and what ends it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tinygpt.cli.interrupts import StopRequest
from tinygpt.cli.journals import Journal
from tinygpt.cli.output import Output
from tinygpt.cli.reports import RunReport
from tinygpt.jobs.session import Audience
from tinygpt.jobs.settings import TrainSettings
from tinygpt.store.runs import RunFolder

FINAL_STEPS = 20  # whose mean is the final train loss


class Screen(Audience):
    """Shows the loop's events, and stops it when a signal asks for that or nobody can be shown them any more."""

    def __init__(
        self,
        folder: RunFolder | None,
        output: Output,
        stop: StopRequest,
        report: RunReport,
        journals: Sequence[Journal],
    ) -> None:
        self.output, self.stop, self.report, self.journals = output, stop, report, journals
        self.display = report.display
        self.past = folder.read_metrics() if folder is not None else []
        losses = [event["loss"] for event in self.past if event["event"] == "step"]
        self.last_losses = deque(losses, maxlen=FINAL_STEPS)

    def begins(self, steps: int) -> None:
        self.display.begin(steps, self.past)

    def event(self, event: dict[str, Any]) -> None:
        for journal in self.journals:
            journal.event(event)
        if event["event"] == "step":
            self.last_losses.append(event["loss"])
        self.display.event(event)

    def should_stop(self) -> bool:
        return self.stop.wanted or self.output.lost

    def train_loss(self) -> float | None:
        return sum(self.last_losses) / len(self.last_losses) if self.last_losses else None

    def ends(self) -> None:
        self.display.end()

    def ended(self, reason: str, settings: TrainSettings) -> None:
        self.report.settings = settings
        self.report.ended(reason, self.train_loss())
