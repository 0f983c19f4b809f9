"""Where the time of a training step goes, kernel by kernel."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from tinygpt.bench.workload import Run
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.engines.select import EngineChoice, make_engine

REPEATS = 7
WARM_UP = 3  # steps
PROFILED = ("native", "webgpu", "webgpu-chromium")  # engines that time their ops


class Profile(NamedTuple):
    device: str
    meaning: str  # how the times are to be read
    rows: list[dict[str, Any]]  # one per kernel, the slowest first


def profile_step(config: RunConfig, choice: EngineChoice) -> Profile:
    """Median milliseconds of each kernel in a step, its rates of arithmetic and memory.

    An op counts once, however many dispatches a GPU takes for it.
    """
    engine: Any = make_engine(config, choice)
    Run(config, engine).advance(WARM_UP)
    passes = [run_now(engine.memory.clock("train")) for _ in range(REPEATS)]
    device, meaning = engine.describe(), "Times are of the CPU, op by op, with the waking of its threads."
    if choice.name.startswith("webgpu"):
        where = "software adapter" if engine.software else "GPU"
        meaning = f"Times are of the {where}, op by op, without the gaps between them."
    run_now(engine.close())
    by_kernel: dict[str, dict[str, Any]] = {}
    for timings in zip(*passes, strict=True):
        op = timings[0][0]
        row = by_kernel.setdefault(op.kernel, {"kernel": op.kernel, "calls": 0, "ms": 0.0, "flops": 0, "bytes": 0})
        row["calls"] += 1
        row["ms"] += 1000 * statistics.median(seconds for _, seconds in timings)
        row["flops"] += op.flops()
        row["bytes"] += op.bytes_touched()
    for row in by_kernel.values():
        row["gflops"], row["gbytes_per_s"] = (rate(row.pop(amount), row["ms"]) for amount in ("flops", "bytes"))
    return Profile(device, meaning, sorted(by_kernel.values(), key=lambda row: -row["ms"]))


def rate(amount: int, ms: float) -> float:
    """Billions per second; 0 where a GPU's clock was too coarse to see any time pass."""
    return amount / ms / 1e6 if ms else 0.0
