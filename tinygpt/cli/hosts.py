"""The training loop's surroundings in a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tinygpt.cli.interrupts import StopRequest
from tinygpt.cli.journals import Journal
from tinygpt.cli.output import Output
from tinygpt.cli.reports import RunReport
from tinygpt.jobs.session import RunHost
from tinygpt.jobs.settings import TrainSettings
from tinygpt.store.runs import RunFolder

FINAL_STEPS = 20  # the final train loss is the mean of so many


class ScreenHost(RunHost):
    """Shows the loop's events, too, and stops it when a signal asked for that or nobody can be shown them any more."""

    def __init__(
        self,
        folder: RunFolder | None,
        settings: TrainSettings,
        output: Output,
        stop: StopRequest,
        report: RunReport,
        journals: Sequence[Journal],
    ) -> None:
        super().__init__(folder, settings)
        self.output, self.stop, self.report, self.journals = output, stop, report, journals
        self.display = report.display
        self.past = folder.read_metrics() if folder is not None else []
        losses = [event["loss"] for event in self.past if event["event"] == "step"]
        self.last_losses = deque(losses, maxlen=FINAL_STEPS)

    def begins(self, steps: int) -> None:
        self.display.begin(steps, self.past)

    def emit(self, event: dict[str, Any]) -> None:
        super().emit(event)
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
        super().ends()
        self.display.end()

    def ended(self, reason: str) -> None:
        self.report.settings = self.settings  # the run may have another length by now
        self.report.ended(reason, self.train_loss())
