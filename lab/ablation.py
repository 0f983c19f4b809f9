"""What each idea of the webgpu engine is worth: the whole step without it, idea by idea.

python -m lab.ablation small huge
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console

from tinygpt.bench.workload import Run
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops import attention, linear, linear_tiles
from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.gpu import lowering
from tinygpt.core.presets import preset
from tinygpt.engines import gpu, webgpu
from tinygpt.engines.base import terminal_engine

WARM_UP = 10
TURNS = 5
SECONDS = 0.25  # of a turn


class Swap(NamedTuple):
    """Something else in the place of a module's or a class's own."""

    owner: Any
    name: str
    value: Any


def only(rows: int, splits: int = 1) -> Swap:
    return Swap(
        linear_tiles, "TILES", tuple(t for t in linear_tiles.TILES if t.rows == rows and t.splits == splits)[:1]
    )


def described_without_subgroups(self: gpu.Gpu, own: Any = gpu.Gpu.describe) -> Device:
    device: Device = own(self)
    device.subgroups = False
    return device


VARIANTS: dict[str, list[Swap]] = {
    "as shipped": [],
    "with wgpu's checks at run time": [Swap(gpu, "without_checks", lambda *_: None)],
    "plain matmul, tiles of 16×16": [Swap(linear, "takes_tiles", lambda _: False)],
    "tiles of 128×128 only": [only(128)],
    "tiles of 64×64 only": [only(64)],
    "tiles of 32×32 only": [only(32)],
    "no teams": [Swap(linear_tiles, "TILES", tuple(tile for tile in linear_tiles.TILES if tile.splits == 1))],
    "a linear map's gradients apart": [Swap(lowering, "are_pair", lambda *_: False)],
    "gradients in one slice": [Swap(lowering, "MAX_SLICES", 1)],
    "no subgroups": [Swap(gpu.Gpu, "describe", described_without_subgroups)],
    "float16 tiles": [],
    "plain attention, a workgroup per row": [Swap(attention, "attention_tiles", lambda *_: None)],
    "recorded by wgpu-py's methods": [Swap(webgpu, "record", gpu.record_by_methods)],
    "the loss read at every step": [],
}


@contextlib.contextmanager
def swapped(swaps: list[Swap]) -> Iterator[None]:
    kept = [(swap, getattr(swap.owner, swap.name)) for swap in swaps]
    try:
        for swap in swaps:
            setattr(swap.owner, swap.name, swap.value)
        yield
    finally:
        for swap, own in kept:
            setattr(swap.owner, swap.name, own)


def losses_of(label: str, config: RunConfig, steps: int) -> list[float]:
    """Of a variant's first steps."""
    with variant(label, config) as run:
        return [row.loss for row in run.advance(steps)]


@contextlib.contextmanager
def variant(label: str, config: RunConfig) -> Iterator[Run]:
    with swapped(VARIANTS[label]):
        engine = terminal_engine(config, webgpu.WebGPUMachine(f16=label == "float16 tiles"))
        if label == "the loss read at every step":
            some = engine.train
            engine.train = lambda steps: some(1)  # type: ignore[method-assign]
        yield Run(config, engine)
        run_now(engine.close())


def milliseconds(run: Run) -> float:
    """The median over some turns, after a warm-up that lets the clocks rise."""
    begin = time.perf_counter()
    run.advance(WARM_UP)
    steps = max(3, round(SECONDS * WARM_UP / (time.perf_counter() - begin)))
    run.advance(steps)
    turns = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        run.advance(steps)
        turns.append((time.perf_counter() - begin) / steps)
    return 1000 * statistics.median(turns)


def main(presets: list[str]) -> None:
    out = Console()
    for name in presets:
        shipped = None
        for label in VARIANTS:
            try:
                with variant(label, preset(name)) as run:
                    if shipped is None:
                        out.print(f"\n{name}: {run.engine.describe()}")
                    spent = milliseconds(run)
            except TinyGPTError as error:
                out.print(f"{label:36} {error}")
                continue
            shipped = shipped or spent
            out.print(f"{label:36} {spent:9.3f} ms {spent / shipped:7.2f}×")


if __name__ == "__main__":
    main(sys.argv[1:] or ["small", "huge"])
