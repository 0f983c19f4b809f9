"""Time of real training steps: forward, backward, clip, update. Engines take turns within one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tinygpt.bench.workload import Run, step_flops
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.engines.select import EngineChoice, make_engine

TURNS = 9  # of each engine; the median over them is the figure
TRIALS = 3  # of how many steps make a turn


def bench_preset(
    name: str, config: RunConfig, engines: Sequence[tuple[str, EngineChoice]], seconds: float
) -> Iterator[dict[str, Any]]:
    """A row per engine, under its label. Each is timed for about `seconds`, in turns of at least one step."""
    runs: list[Run] = []
    try:
        for _, choice in engines:
            runs.append(Run(config, make_engine(config, choice)))
        yield from timed(name, config, [label for label, _ in engines], runs, seconds)
    finally:
        for run in runs:
            run_now(run.engine.close())


def timed(
    name: str, config: RunConfig, labels: Sequence[str], runs: Sequence[Run], seconds: float
) -> Iterator[dict[str, Any]]:
    turns = [steps_of_a_turn(run, seconds) for run in runs]
    times: list[list[float]] = [[] for _ in runs]
    losses = [0.0 for _ in runs]
    for _ in range(TURNS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            losses[i] = run.advance(turns[i])[-1].loss
            times[i].append((time.perf_counter() - start) / turns[i])
    flops = step_flops(config)
    for i, run in enumerate(runs):
        median = statistics.median(times[i])
        tokens = config.train.batch * config.train.grad_accum * config.model.ctx
        yield {
            "preset": name,
            "engine": labels[i],
            "device": run.engine.describe(),
            "software": run.engine.software,
            "threads": run.engine.threads,
            "ms_per_step": 1000 * median,
            "ms_best": 1000 * min(times[i]),
            "tokens_per_s": tokens / median,
            "gflops": flops / median / 1e9,
            "loss": losses[i],
            "steps": turns[i] * TURNS,
        }


def steps_of_a_turn(run: Run, seconds: float) -> int:
    """After a warm-up (which compiles, and touches all memory): how many steps fill an engine's share of the time.

    Tried with more and more steps: of a few, most of the time may be the way to the engine and back.
    """
    run.advance(2)
    steps = 2
    for _ in range(TRIALS):
        start = time.perf_counter()
        run.advance(steps)
        wanted = max(1, round(steps * seconds / TURNS / (time.perf_counter() - start)))
        if wanted <= 2 * steps:
            return wanted
        steps = wanted
    return steps
