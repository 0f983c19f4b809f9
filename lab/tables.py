"""What n-gram tables cost of a step: `modern` with and without them, by turns in one process.

python -m lab.tables small large --engine wasm-node
"""

from __future__ import annotations

import argparse
import statistics
import time

from tinygpt.bench.workload import Run
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.engines.select import EngineChoice, make_engine

BLOCKS, STEPS = 24, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--engine", default="native")
    chosen = parser.parse_args()
    for name in chosen.presets:
        config = preset(name, "modern")
        runs = [Run(c, make_engine(c, EngineChoice(chosen.engine))) for c in (config, config.replace(ngrams=""))]
        times: list[list[float]] = [[], []]
        for run in runs:
            run.advance(STEPS)
        for _ in range(BLOCKS):
            for run, seconds in zip(runs, times, strict=True):
                start = time.perf_counter()
                run.advance(STEPS)
                seconds.append((time.perf_counter() - start) / STEPS)
        with_tables, without = [1000 * statistics.median(seconds) for seconds in times]
        print(
            f"{name}, {chosen.engine}: {with_tables:.3f} ms per step with n-gram tables, {without:.3f} without: "
            f"{100 * (with_tables / without - 1):+.1f} %"
        )
        for run in runs:
            run_now(run.engine.close())


if __name__ == "__main__":
    main()
