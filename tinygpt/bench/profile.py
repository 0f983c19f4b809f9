"""Where the time of a training step goes, kernel by kernel."""

from __future__ import annotations

import statistics
from typing import Any

from tinygpt.bench.workload import Run
from tinygpt.core.config import RunConfig
from tinygpt.core.cost import bytes_touched, flops
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice, make_engine

REPEATS = 7


def profile_step(config: RunConfig, choice: EngineChoice, warm_up: int) -> list[dict[str, Any]]:
    """A row a kernel, the slowest first: median milliseconds in a step, rates of arithmetic and memory."""
    engine = make_engine(config, choice)
    if not hasattr(engine, "profile"):
        raise TinyGPTError(f"the {engine.name} engine has no profile of its ops; use native")
    Run(config, engine).advance(warm_up)
    passes = [engine.profile("train") for _ in range(REPEATS)]
    by_kernel: dict[str, dict[str, Any]] = {}
    for timings in zip(*passes, strict=True):
        op = timings[0][0]
        row = by_kernel.setdefault(op.kernel, {"kernel": op.kernel, "calls": 0, "ms": 0.0, "flops": 0, "bytes": 0})
        row["calls"] += 1
        row["ms"] += 1000 * statistics.median(seconds for _, seconds in timings)
        row["flops"] += flops(op)
        row["bytes"] += bytes_touched(op)
    for row in by_kernel.values():
        row["gflops"] = row.pop("flops") / row["ms"] / 1e6
        row["gbytes_per_s"] = row.pop("bytes") / row["ms"] / 1e6
    return sorted(by_kernel.values(), key=lambda row: -row["ms"])
