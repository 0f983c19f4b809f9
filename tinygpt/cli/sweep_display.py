"""What `sweep` shows while it runs: a live bar, a line per run, JSON lines, or nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tinygpt.cli.display import TRAIN_STYLE, VAL_STYLE, WIDEST, duration, rate
from tinygpt.cli.output import Output
from tinygpt.sweeps.plan import Plan, Run, described
from tinygpt.sweeps.results import DIVERGED, FAILED, Result, standings

STOPPING = "stopping; what is done is kept"


class SweepDisplay:
    """Follows a sweep (it is a `sweeps.sweeping.Watch`). This one shows nothing, and the others start from it."""

    def __init__(self, plan: Plan, done: list[Result]) -> None:
        self.plan = plan
        self.results = [result for result in done if result.outcome != FAILED]
        seeds, rungs = len(plan.seeds()), plan.rungs()
        self.total = seeds * (len(plan.candidates()) + sum(rung.keep for rung in rungs[:-1]))
        self.whole_cost = plan.total_cost()
        self.cost_before = sum(cost_of(result) for result in self.results)
        self.cost = self.cost_before  # of the runs that are done
        self.running: dict[str, tuple[Run, int]] = {}  # by their settings: how far each is
        self.began = time.monotonic()
        self.stopping = False
        self.asked_to_stop: Callable[[], bool] = lambda: False

    def listen(self, asked_to_stop: Callable[[], bool]) -> None:
        self.asked_to_stop = asked_to_stop

    def should_stop(self) -> bool:
        return self.asked_to_stop()

    def stop_soon(self) -> None:
        """Called by a signal handler: it may not print."""
        self.stopping = True

    def begin(self) -> None:
        self.began = time.monotonic()

    def end(self) -> None:
        """Leave the terminal as it should stay."""

    def started(self, run: Run) -> None:
        self.running[described(run.settings)] = (run, 0)

    def stepped(self, run: Run, step: int) -> None:
        self.running[described(run.settings)] = (run, step)

    def finished(self, run: Run, result: Result) -> None:
        self.running.pop(described(run.settings), None)
        self.results = [*self.results, result]
        self.cost += run.cost

    def share(self) -> float:
        """Of the whole work, as costs estimate it."""
        under_way = sum(run.cost * step / run.config.train.steps for run, step in list(self.running.values()))
        return min(1.0, (self.cost + under_way) / self.whole_cost)

    def seconds_left(self) -> float | None:
        now, before = self.share(), self.cost_before / self.whole_cost
        elapsed = time.monotonic() - self.began
        return elapsed * (1 - now) / (now - before) if now - before > 1e-3 else None

    def left(self) -> str:
        seconds = self.seconds_left()
        return "" if seconds is None else f"  {duration(seconds)} to go"


def cost_of(result: Result) -> float:
    return float(result.parameters * result.tokens)


class JsonResults(SweepDisplay):
    def __init__(self, plan: Plan, done: list[Result], stream: IO[str]) -> None:
        super().__init__(plan, done)
        self.stream = stream

    def finished(self, run: Run, result: Result) -> None:
        super().finished(run, result)
        self.stream.write(json.dumps({"event": "run", **result.as_dict()}) + "\n")
        self.stream.flush()


class LinePerRun(SweepDisplay):
    """For files and pipes."""

    def __init__(self, plan: Plan, done: list[Result], console: Console) -> None:
        super().__init__(plan, done)
        self.console = console

    def finished(self, run: Run, result: Result) -> None:
        super().finished(run, result)
        count = f"{len(self.results):>{len(str(self.total))}}/{self.total}"
        self.console.print(f"{count}  {in_words(result)}  {described(result.settings)}{self.left()}", soft_wrap=True)


class LiveBar(SweepDisplay):
    """Runs done, the best so far, those under way, redrawn in place by a thread of its own."""

    def __init__(self, plan: Plan, done: list[Result], console: Console) -> None:
        super().__init__(plan, done)
        self.console = console
        self.live = Live(
            console=console, get_renderable=self.render, refresh_per_second=4, redirect_stderr=False, transient=True
        )

    def begin(self) -> None:
        super().begin()
        self.live.start()

    def end(self) -> None:
        self.live.stop()

    def render(self) -> Group:
        width = min(self.console.width, WIDEST)
        share = self.share()
        counts = f" {len(self.results)}/{self.total} runs  {share:4.0%}{self.left()}"
        room = max(10, width - len(counts) - 4)
        done = round(share * room)
        rows = [Text.assemble(("━" * done, TRAIN_STYLE), ("─" * (room - done), "dim"), counts)]
        ranked = standings(self.results)
        if ranked and math.isfinite(ranked[0].loss):
            best = ranked[0]
            rows.append(
                Text.assemble(
                    ("best ", "dim"), (f"{best.loss:.4f}", f"bold {VAL_STYLE}"), f"  {described(best.settings)}"
                )
            )
        for name, (run, step) in list(self.running.items()):
            rows.append(Text(f"{name}: step {step:,} of {run.config.train.steps:,}", style="dim"))
        if self.stopping:
            rows.append(Text(STOPPING, style="bold yellow"))
        return Group(*[Text.assemble("  ", row) for row in rows])


def in_words(result: Result) -> str:
    if result.outcome == DIVERGED:
        return f"diverged at step {result.steps:,}"
    if result.outcome == FAILED:
        return f"failed: {result.reason}"
    return f"val {result.loss:.4f}  {duration(result.seconds)}  {rate(result.tokens_per_second)}"


def sweep_display(output: Output, plan: Plan, done: list[Result]) -> SweepDisplay:
    if output.json:
        return JsonResults(plan, done, output.console.file)
    if output.console.quiet:
        return SweepDisplay(plan, done)
    return (LiveBar if output.console.is_terminal else LinePerRun)(plan, done, output.console)
