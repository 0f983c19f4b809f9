"""How fast engines write, a byte at a time: early in the context, at its end, and against the memory they must read.

python -m lab.writing small large huge --engines native,wasm-node,torch
python -m lab.writing small large huge --engines native,wasm-node --weights float32,float16,int8

To write a byte all weights are read once, so a machine's memory, or the cache that holds them, sets a bound: "of the
bound" is the share of it that an engine reaches (that of float32's weights, whatever they are kept in). Engines take
turns; a figure is the median of their turns, or where other programs run beside them the best (--best).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tinygpt.cli.engine_specs import spec_options
from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import preset
from tinygpt.core.train.progress import Progress
from tinygpt.engines.base import State
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.kernels.init import initial_weights
from tinygpt.store.formats import Checkpoint, save_model
from tinygpt.store.formats.tinygpt_file import compacted

EARLY = 8
LLAMA_CPP = "llama.cpp"
BLOCK = 32  # bytes that are timed together
WINDOW = bytes(range(97, 123)) * 40


class OfEngine:
    """Writes with an engine of ours."""

    def __init__(self, config: RunConfig, spec: str, weights: str) -> None:
        state = State(0, initial_weights(config.model, config.train.seed))
        if weights != "float32":
            state = compacted(state, config.model, weights)
        self.ctx = config.model.ctx
        self.engine: Engine = make_engine(config, EngineChoice(**spec_options(spec)), state)

    def seconds_per_byte(self, position: int, count: int) -> float:
        """Of a block that begins behind so many bytes."""
        run_now(self.engine.begin_text(WINDOW[:position], SampleConfig(tokens=self.ctx), 0, b""))
        began = time.perf_counter()
        run_now(self.engine.continue_text(count))
        return (time.perf_counter() - began) / count

    def close(self) -> None:
        run_now(self.engine.close())


class OfLlamaCpp:
    """Writes with llama.cpp on the same weights, by its own clock. `pip install xllamacpp` brings it."""

    def __init__(self, config: RunConfig, weights: str) -> None:
        import xllamacpp

        state = State(0, initial_weights(config.model, config.train.seed))
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "model.gguf")
        save_model(path, Checkpoint(config, state, Progress()), dtype=weights)
        settings = xllamacpp.CommonParams()
        settings.model.path, settings.n_ctx, settings.n_parallel = str(path), config.model.ctx, 1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = os.cpu_count() or 1
        settings.verbosity = -1
        self.server = xllamacpp.Server(settings)

    def seconds_per_byte(self, position: int, count: int) -> float:
        asked = {"prompt": WINDOW[: position - 1].decode(), "max_tokens": count, "ignore_eos": True}
        asked |= {"temperature": 0, "samplers": ["temperature"], "cache_prompt": False, "stream": False}
        told = self.server.handle_completions(asked)
        return float(told["timings"]["predicted_per_token_ms"]) / 1000

    def close(self) -> None:
        self.folder.cleanup()


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


def writer_of(config: RunConfig, spec: str, weights: str) -> OfEngine | OfLlamaCpp:
    return OfLlamaCpp(config, weights) if spec == LLAMA_CPP else OfEngine(config, spec, weights)


def measure(
    name: str, specs: Sequence[tuple[str, str]], seconds: float, figure: Callable[[Iterable[float]], float]
) -> list[tuple[float, float]]:
    """Per engine and what its weights are kept in: seconds per byte early and at the end of the context."""
    config = preset(name)
    ctx = config.model.ctx
    writers = {spec: writer_of(config, *spec) for spec in specs}
    places = EARLY, max(EARLY, ctx - BLOCK)
    turns: dict[tuple[str, str], list[tuple[float, ...]]] = {spec: [] for spec in specs}
    counts = [min(BLOCK, ctx - EARLY, ctx - place) for place in places]
    for writer in writers.values():
        writer.seconds_per_byte(EARLY, counts[0])
    until = time.perf_counter() + seconds * len(specs)
    while time.perf_counter() < until or len(turns[specs[-1]]) < 3:
        for spec, writer in writers.items():
            turns[spec].append(tuple(map(writer.seconds_per_byte, places, counts)))
    for writer in writers.values():
        writer.close()
    return [(figure(turn[0] for turn in turns[spec]), figure(turn[1] for turn in turns[spec])) for spec in specs]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["small", "large", "huge"])
    parser.add_argument(
        "--engines", default="native,torch", help=f"with commas; as `tinygpt bench` takes them, and {LLAMA_CPP}"
    )
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
