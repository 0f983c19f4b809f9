"""What `train` shows while it runs: a live panel, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import IO, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tinygpt.cli.charts import loss_chart
from tinygpt.cli.exams import answer_lines, result_line
from tinygpt.core.train.progress import LossHistory
from tinygpt.terminal import printable

SMOOTHING_STEPS = 10
SECONDS_BETWEEN_LINES = 10.0
CHART_ROWS = 7
SAMPLE_LINES = 4
WATCHED_LINES = 8
LEVELS = "▁▂▃▄▅▆▇█"
WIDEST = 100  # columns; a curve wider than that tells no more
STOPPING = "finishing this step, then saving; Ctrl-C again quits at once"
ADVICE, ADVICE_STYLE = "coach  {}", "yellow"
TRAIN_STYLE, VAL_STYLE, EXAM_STYLE = "cyan", "yellow", "green"


class Smoother:
    """Exponential moving average over about `steps` values, without the bias towards a start at zero."""

    def __init__(self, steps: float) -> None:
        self.keep = 1.0 - 1.0 / max(1.0, steps)
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: float) -> float:
        self.total = self.keep * self.total + (1.0 - self.keep) * value
        self.weight = self.keep * self.weight + (1.0 - self.keep)
        return self.total / self.weight


class Display:
    """Follows a run's events. This one shows nothing, and the others start from it."""

    def __init__(self) -> None:
        self.steps = 0
        self.step = 0
        self.smoother = Smoother(SMOOTHING_STEPS)
        self.smooth: float | None = None
        self.lr = 0.0
        self.tokens_per_s = 0.0
        self.eta_s = 0.0
        self.val: float | None = None
        self.best: float | None = None
        self.exam: dict[str, Any] | None = None  # the last one
        self.stopping = False

    def begin(self, steps: int, past: list[dict[str, Any]]) -> None:
        """Show a run of so many steps; `past` holds the events of what a resumed run did before."""
        self.steps = steps
        for event in past:
            self.follow(event)

    def event(self, event: dict[str, Any]) -> None:
        self.follow(event)

    def stop_soon(self) -> None:
        """Called by a signal handler: it may not print, for it may have interrupted a print."""
        self.stopping = True

    def end(self) -> None:
        """Leave the terminal as it should stay."""

    def follow(self, event: dict[str, Any]) -> None:
        if event["event"] == "step":
            self.smooth = self.smoother.add(event["loss"])
            self.step, self.lr = event["step"], event["lr"]
            self.tokens_per_s, self.eta_s = event["tokens_per_s"], event["eta_s"]
        elif event["event"] == "eval":
            self.val = event["val_loss"]
            self.best = self.val if self.best is None else min(self.best, event["val_loss"])
        elif event["event"] == "exam":
            self.exam = event
        elif event["event"] == "retime":
            self.steps = event["steps"]


class JsonLines(Display):
    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self.stream = stream

    def event(self, event: dict[str, Any]) -> None:
        self.stream.write(json.dumps(event) + "\n")
        self.stream.flush()


class PlainLines(Display):
    """A line now and then: for files and pipes."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.next_line = 0.0

    def event(self, event: dict[str, Any]) -> None:
        self.follow(event)
        due = event["event"] == "step" and (time.monotonic() >= self.next_line or event["step"] == self.steps)
        if event["event"] == "advice":
            self.console.print(ADVICE.format(event["text"]), style=ADVICE_STYLE, highlight=False, soft_wrap=True)
        elif event["event"] == "watch":
            self.console.print(watch_line(event), highlight=False, soft_wrap=True)
        elif due or event["event"] in ("eval", "exam", "retime"):
            self.next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            self.console.print(self.line(event), highlight=False, soft_wrap=True)

    def stop_soon(self) -> None:
        with suppress(OSError):  # the terminal may be gone
            os.write(2, STOPPING.encode() + b"\n")

    def line(self, event: dict[str, Any]) -> str:
        if event["event"] == "eval":
            return f"step {event['step']:>6,}  val  {event['val_loss']:.4f}{'  best so far' if event['best'] else ''}"
        if event["event"] == "exam":
            return f"step {event['step']:>6,}  exam {result_line(event)}"
        if event["event"] == "retime":
            return f"step {event['step']:>6,}  {event['steps']:,} steps fit the time that is left"
        return (
            f"step {event['step']:>6,}  loss {self.smooth:.4f}  {rate(self.tokens_per_s)}  {duration(self.eta_s)} to go"
        )


class LivePanel(Display):
    """Bar, numbers, curve and newest sample, redrawn in place by a thread of its own."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__()
        self.console = console
        self.title = title
        self.losses = LossHistory()
        self.vals: list[tuple[int, float]] = []
        self.exams: list[tuple[int, float]] = []
        self.sample = ""
        self.watched: dict[str, str] = {}  # a line per tensor
        self.ended = False  # the summary says what is written, and why
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, redirect_stderr=False)

    def begin(self, steps: int, past: list[dict[str, Any]]) -> None:
        super().begin(steps, past)
        self.live.start()

    def follow(self, event: dict[str, Any]) -> None:
        super().follow(event)
        if event["event"] == "step" and self.smooth is not None:
            self.losses.add(event["step"], self.smooth)
        elif event["event"] == "eval":
            self.vals = [*self.vals, (event["step"], event["val_loss"])]
        elif event["event"] == "exam":
            self.exams = [*self.exams, (event["step"], event["accuracy"])]
        elif event["event"] == "sample":
            self.sample = event["text"]
        elif event["event"] == "watch":
            self.watched = {**self.watched, event["tensor"]: watch_line(event)}
        elif event["event"] == "advice":
            self.live.console.print(ADVICE.format(event["text"]), style=ADVICE_STYLE, highlight=False)

    def end(self) -> None:
        self.ended = True
        self.live.stop()

    def render(self) -> Group:
        width = min(self.console.width, WIDEST)
        rows: list[Text] = [Text(), self.bar(width), self.numbers()]
        if len(self.losses.points) > 1:
            rows.append(Text())
            losses, shares = list(self.losses.points), (self.exams, EXAM_STYLE)
            rows += loss_chart(losses, self.vals, width - 2, CHART_ROWS, TRAIN_STYLE, VAL_STYLE, *shares)
        rows += [Text(line[: width - 4]) for line in list(self.watched.values())[:WATCHED_LINES]]
        rows += [] if self.ended else self.writing(width)
        if self.stopping and not self.ended:
            rows.append(Text(STOPPING, style="bold yellow"))
        return Group(*[Text.assemble("  ", row) for row in rows])

    def writing(self, width: int) -> list[Text]:
        """The newest answers, or of a text that asks nothing the newest sample."""
        if self.exam is not None:
            lines = answer_lines(self.exam, SAMPLE_LINES)
        else:
            shown = [line for line in self.sample.splitlines() if line.strip()][:SAMPLE_LINES]
            lines = [Text(printable(line)[: width - 4], style="dim italic") for line in shown]
        return [Text(), *lines] if lines else []

    def bar(self, width: int) -> Text:
        share = self.step / self.steps if self.steps else 0.0
        counts = f" {self.step:,}/{self.steps:,}  {share:4.0%}  {duration(self.eta_s)} to go"
        room = max(10, width - len(self.title) - len(counts) - 6)
        done = round(share * room)
        return Text.assemble(
            (self.title, "bold"), "  ", ("━" * done, TRAIN_STYLE), ("─" * (room - done), "dim"), counts
        )

    def numbers(self) -> Text:
        parts = [("loss ", "dim"), (f"{self.smooth:.3f}" if self.smooth is not None else "–", f"bold {TRAIN_STYLE}")]
        if self.val is not None:
            parts += [("   val ", "dim"), (f"{self.val:.3f}", f"bold {VAL_STYLE}"), (f" best {self.best:.3f}", "dim")]
        if self.exam is not None:
            parts += [("   exam ", "dim"), (f"{self.exam['accuracy']:.0%}", f"bold {EXAM_STYLE}")]
        parts += [("   lr ", "dim"), (f"{self.lr:.2g}", ""), ("   ", ""), (rate(self.tokens_per_s), "")]
        return Text.assemble(*parts)


def watch_line(event: dict[str, Any]) -> str:
    """A tensor in numbers, and as a histogram."""
    numbers = f"norm {event['norm']:.3g}  mean {event['mean']:.2g}  std {event['std']:.2g}"
    strange = f"  {event['strange']} no numbers" if event["strange"] else ""
    return f"step {event['step']:>6,}  {event['tensor']}  {spark(event['bins'])}  {numbers}{strange}"


def spark(bins: list[int]) -> str:
    """A histogram in a line of text."""
    pairs = [a + b for a, b in zip(bins[::2], bins[1::2], strict=True)]
    most = max(pairs)
    return "".join(" " if count == 0 else LEVELS[8 * count // (most + 1)] for count in pairs)


def rate(tokens_per_s: float) -> str:
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens_per_s >= scale:
            return f"{tokens_per_s / scale:.3g}{unit} tokens/s"
    return f"{tokens_per_s:.0f} tokens/s"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
