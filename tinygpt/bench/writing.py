"""How fast engines write, a byte at a time: early in the context, at its end, and against the memory they must read.

python -m tinygpt.bench.writing small large huge --engines native,wasm-node,torch
python -m tinygpt.bench.writing small large huge --engines native,wasm-node --weights float32,float16,int8

To write a byte all weights are read once, so a machine's memory, or the cache that holds them, sets a bound: "of the
bound" is the share of it that an engine reaches (that of float32's weights, whatever they are kept in). Engines take
turns; a figure is the median of their turns, or where other programs run beside them the best (--best).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tinygpt.cli.engine_specs import spec_options
from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import preset
from tinygpt.core.run.contract import Engine, run_now
from tinygpt.engines.base import State
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.formats.tinygpt_file import compacted
from tinygpt.kernels.init import initial_weights

EARLY = 8
BLOCK = 32  # bytes that are timed together
WINDOW = bytes(range(97, 123)) * 40


def seconds_per_byte(engine: Engine, ctx: int, position: int) -> float:
    """Of a block that begins behind so many bytes."""
    count = min(BLOCK, ctx - EARLY, ctx - position)
    run_now(engine.begin_text(WINDOW[:position], SampleConfig(tokens=ctx), 0, b""))
    began = time.perf_counter()
    run_now(engine.continue_text(count))
    return (time.perf_counter() - began) / count


def bytes_per_second(size: int, threads: int) -> float:
    """At which threads read so many bytes over and over: from memory, or from a cache that holds them."""
    parts = [np.ones(max(size // threads // 4, 1024), np.float32) for _ in range(threads)]
    times = max(1, 2**28 // size)

    def read(part: np.ndarray) -> None:
        for _ in range(times):
            np.dot(part, part)

    with ThreadPoolExecutor(threads) as pool:
        best = 0.0
        for _ in range(5):
            began = time.perf_counter()
            list(pool.map(read, parts))
            best = max(best, times * sum(part.nbytes for part in parts) / (time.perf_counter() - began))
    return best


def engine_of(config: RunConfig, spec: str, weights: str) -> Engine:
    state = State(0, initial_weights(config.model, config.train.seed))
    if weights != "float32":
        state = compacted(state, config.model, weights)
    return make_engine(config, EngineChoice(**spec_options(spec)), state)


def measure(
    name: str, specs: Sequence[tuple[str, str]], seconds: float, figure: Callable[[Iterable[float]], float]
) -> list[tuple[float, float]]:
    """Per engine and what its weights are kept in: seconds per byte early and at the end of the context."""
    config = preset(name)
    ctx = config.model.ctx
    engines = {spec: engine_of(config, *spec) for spec in specs}
    places = EARLY, max(EARLY, ctx - BLOCK)
    turns: dict[tuple[str, str], list[tuple[float, ...]]] = {spec: [] for spec in specs}
    for engine in engines.values():
        seconds_per_byte(engine, ctx, EARLY)
    until = time.perf_counter() + seconds * len(specs)
    while time.perf_counter() < until or len(turns[specs[-1]]) < 3:
        for spec, engine in engines.items():
            turns[spec].append(tuple(seconds_per_byte(engine, ctx, place) for place in places))
    for engine in engines.values():
        run_now(engine.close())
    return [(figure(turn[0] for turn in turns[spec]), figure(turn[1] for turn in turns[spec])) for spec in specs]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["small", "large", "huge"])
    parser.add_argument("--engines", default="native,torch", help="with commas; as `tinygpt bench` takes them")
    parser.add_argument("--weights", default="float32", help="with commas: float32, float16, int8")
    parser.add_argument("--seconds", type=float, default=2.0, help="per engine and preset")
    parser.add_argument("--best", action="store_true", help="of the turns; else the median")
    asked = parser.parse_args(arguments)
    figure = min if asked.best else statistics.median
    threads = os.cpu_count() or 1
    specs = [(spec, weights) for spec in asked.engines.split(",") for weights in asked.weights.split(",")]
    print(
        f"{'preset':8} {'engine':16} {'weights':8} {'µs early':>9} {'at ctx':>9} {'ratio':>6} {'bytes/s':>9} "
        f"{'of the bound':>13}"
    )
    for name in asked.presets:
        size = 4 * parameter_count(preset(name).model)
        bound = bytes_per_second(size, threads) / size
        for (spec, weights), (early, late) in zip(specs, measure(name, specs, asked.seconds, figure), strict=True):
            rate = 1 / late
            print(
                f"{name:8} {spec:16} {weights:8} {1e6 * early:9.0f} {1e6 * late:9.0f} {late / early:6.2f} {rate:9,.0f} "
                f"{rate / bound:12.0%}"
            )
        print(f"{name:8} {size / 1e6:.1f} MB of weights are read {bound:,.0f} times per second by {threads} threads")


if __name__ == "__main__":
    main()
