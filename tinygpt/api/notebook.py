"""A loss curve that moves while a model trains, in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any

from tinygpt.plots import draw_losses

SECONDS_BETWEEN = 1.0


def in_notebook() -> bool:
    """Whether this is a kernel whose front end shows pictures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")


class LiveCurve:
    """For `train(on_event=LiveCurve())`: draws the losses so far, about once per second and at every validation.

    Outside a notebook nothing is drawn on the way; `figure()` gives the picture.

    >>> curve = tinygpt.LiveCurve()
    >>> model = tinygpt.train(text, preset="tiny", on_event=curve)
    >>> curve.figure().savefig("losses.png")
    """

    def __init__(self, title: str = "training") -> None:
        self.title = title
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

    def figure(self) -> Any:
        """The losses so far, as a matplotlib figure."""
        return draw_losses(self.title, self.train, self.val)

    def draw(self) -> None:
        if not in_notebook():
            return
        from IPython.display import display

        if self.shown is None:
            self.shown = display(self.figure(), display_id=True)
        else:
            self.shown.update(self.figure())
