"""What `train` shows while it trains: a bar in a terminal, a live curve in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tinygpt.api.notebook import LiveCurve, in_notebook

Event = dict[str, Any]


class Shown(Protocol):
    def begin(self, steps: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


class Bar:
    """One line on stderr: steps done, losses, the time that is left."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}/{task.total:,}")
        self.progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self.task = self.progress.add_task("training", total=None)
        self.loss = self.val = ""

    def begin(self, steps: int) -> None:
        self.progress.update(self.task, total=steps)
        self.progress.start()

    def event(self, event: Event) -> None:
        if event["event"] == "step":
            self.loss = f"loss {event['loss']:.3f}"
            self.progress.update(self.task, completed=event["step"], description=f"{self.loss}{self.val}")
        elif event["event"] == "eval":
            self.val = f"  val {event['val_loss']:.3f}"
        elif event["event"] == "retime":
            self.progress.update(self.task, total=event["steps"])

    def end(self) -> None:
        self.progress.stop()


class Curve:
    """A LiveCurve of its own."""

    def __init__(self) -> None:
        self.curve = LiveCurve()

    def begin(self, steps: int) -> None:
        self.curve.title = f"{steps:,} steps"

    def event(self, event: Event) -> None:
        self.curve(event)

    def end(self) -> None:
        if self.curve.train:
            self.curve.draw()


class Nothing:
    def begin(self, steps: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def end(self) -> None: ...


def display(progress: bool | None, on_event: object) -> Shown:
    """True: in any case; None: where somebody looks, and `on_event` is no curve already."""
    if progress is False or (progress is None and isinstance(on_event, LiveCurve)):
        return Nothing()
    if in_notebook():
        return Curve()
    return Bar() if progress or sys.stderr.isatty() else Nothing()
