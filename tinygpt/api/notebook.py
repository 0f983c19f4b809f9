"""A loss curve that moves while a model trains, in a notebook."""

from __future__ import annotations

import time
from typing import Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.plots import draw_losses

SECONDS_BETWEEN = 1.0


class LiveCurve:
    """For `train(on_event=LiveCurve())`: draws the losses so far, about once per second and at every validation."""

    def __init__(self, title: str = "training") -> None:
        try:
            from IPython.display import display
        except ImportError:
            raise TinyGPTError("a live curve needs a notebook: pip install ipython") from None
        self.display, self.title = display, title
        self.train: list[tuple[int, float]] = []
        self.val: list[tuple[int, float]] = []
        self.shown: Any = None  # what is on the page, to be replaced
        self.next = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "step":
            self.train.append((event["step"], event["loss"]))
        elif event["event"] == "eval":
            self.val.append((event["step"], event["val_loss"]))
        else:
            return
        if self.train and (event["event"] == "eval" or time.monotonic() >= self.next):
            self.next = time.monotonic() + SECONDS_BETWEEN
            self.draw()

    def draw(self) -> None:
        figure = draw_losses(self.title, self.train, self.val)
        if self.shown is None:
            self.shown = self.display(figure, display_id=True)
        else:
            self.shown.update(figure)
