"""What figures of the site draw, where it follows from core: they state nothing of their own."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

from tinygpt.core.models.memory import Memory
from tinygpt.core.passes import OPTIONAL, program_of
from tinygpt.core.presets import preset

SIZES = ("tiny", "small", "large")
RECIPE = "classic"
TEXT = 1000  # bytes: it is drawn from, and its length is no part of a step


def passes() -> dict[str, Any]:
    """What a step has and does, for each size and each set of passes that are left out."""
    names = [name for name in OPTIONAL if name != "dispatches"]  # that one is for GPUs
    subsets = list(chain.from_iterable(combinations(names, count) for count in range(len(names) + 1)))
    return {"passes": names, "sizes": {size: {",".join(out): step(size, out) for out in subsets} for size in SIZES}}


def step(size: str, without: tuple[str, ...]) -> dict[str, float]:
    config = preset(size, RECIPE)
    memory = Memory(config, TEXT, TEXT, merged="merge" not in without)
    ops = program_of("train", config, memory, without).ops
    moved, computed = sum(op.bytes_touched() for op in ops), sum(op.flops() for op in ops)
    return {"ops": len(ops), "bytes": moved, "flops": computed}
