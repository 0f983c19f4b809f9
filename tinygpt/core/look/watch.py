"""What a program leaves in its tensors: every one has a name, so any of them can be watched.

A tensor that is watched has a place of its own in the plan; to a player it is one more output. Values are those of
the last run of a program: while training, of the last step.
"""

import math
import struct

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import step_modes
from tinygpt.core.names import chosen
from tinygpt.core.ops.op import Tensor
from tinygpt.core.plan.programs import MadePrograms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BINS = 32  # of a histogram
BINNED = 16384  # values, at least, that a histogram counts of a larger tensor
NO_PROGRAM = "has no program whose tensors could be watched; use --engine native or webgpu"


def tensors_of(config: RunConfig, modes: "Sequence[str]") -> "list[Tensor]":
    """Every tensor of these programs in the order in which they come into being, then weights and their gradients."""
    made = MadePrograms(config, list(modes), config.model.ctx + 1)
    known: dict[str, bool] = {}
    found: list[Tensor] = []
    memory, learns = made.memory, "grads" in [tensor.name for tensor in made.tensors]
    for mode in modes:
        for tensor in made.programs[mode].written():
            if tensor.kind == "temp" and tensor.name not in known:
                known[tensor.name] = True
                found.append(tensor)
    for place in memory.layout.places:
        found += [memory.weight[place.name]] + ([memory.grad[place.name]] if learns else [])
    return found


def summary(values: "Sequence[float]") -> "dict[str, Any]":
    """A tensor in a few numbers: norm, mean, standard deviation, extremes, the share of zeros, how many are no numbers,
    and a histogram of BINS equal stretches from the lowest to the highest (of a large tensor every n-th is counted)."""
    finite = [value for value in values if value - value == 0]
    count = len(finite)
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    total = math.sqrt(sum([value * value for value in finite]))
    mean = sum(finite) / count if count else 0.0
    spread = math.sqrt(max(0.0, total * total / count - mean * mean)) if count else 0.0
    bins = [0] * BINS
    width = (high - low) / BINS or 1.0
    for value in finite[:: max(1, count // BINNED)]:
        bins[min(BINS - 1, int((value - low) / width))] += 1
    return {
        "norm": total,
        "mean": mean,
        "std": spread,
        "low": low,
        "high": high,
        "zeros": finite.count(0.0) / count if count else 0.0,
        "strange": len(values) - count,
        "bins": bins,
    }


def floats_in(data: bytes) -> "tuple[float, ...]":
    return struct.unpack(f"<{len(data) // 4}f", data)


class Watcher:
    """Tells of some tensors of a training step, every so many steps."""

    def __init__(self, config: RunConfig, engine: "Any", patterns: "Sequence[str]", every: int) -> None:
        """Before the engine takes its texts."""
        if not hasattr(engine, "memory"):
            raise TinyGPTError(f"the {engine.name} engine {NO_PROGRAM}")
        modes = [mode for mode in step_modes(config) if mode != "update"]
        self.names = chosen(patterns, [tensor.name for tensor in tensors_of(config, modes)], "tensor")
        self.engine = engine
        self.every = every
        self.last: dict[str, tuple[tuple[int, ...], bytes]] = {}  # by name: shape and floats, as they were told last
        engine.memory.watched = tuple(self.names)

    async def look(self, step: int) -> "list[dict[str, Any]]":
        """An event per tensor, of the step that was done last."""
        events = []
        for name in self.names:
            shape, data = self.last[name] = await self.engine.memory.read_tensor(name)
            event = summary(floats_in(data))
            event.update({"event": "watch", "step": step, "tensor": name, "shape": list(shape)})
            events.append(event)
        return events
