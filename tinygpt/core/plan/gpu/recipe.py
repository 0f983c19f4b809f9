"""All that a GPU's player needs to know of a run, as plain data: whole numbers and texts only.

web/src/engine/contract.ts has the same fields. Places and sizes in buffers are in bytes.
"""

from tinygpt.core.config import RunConfig
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.ops.gpu import Device, Dispatch
from tinygpt.core.ops.op import float_bits
from tinygpt.core.plan.cpu.recipe import double_words
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.memory import GpuPlan
from tinygpt.core.plan.layout import ALIGNMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def device_of(described: "dict[str, Any]") -> Device:
    """A device from its fields by name."""
    device = Device()
    for name in described:
        setattr(device, name, described[name])
    return device


class Pipelines:
    """Each kernel with its constants once, in the order of first use."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.numbers: dict[str, int] = {}

    def number(self, dispatch: Dispatch) -> int:
        constants = []
        for name in sorted(dispatch.constants):
            value = dispatch.constants[name]
            is_float = isinstance(value, float)
            constants.append([name, 1 if is_float else 0, float_bits(value) if is_float else int(value)])
        bindings = "r" * len(dispatch.reads) + "w" * len(dispatch.writes)
        key = repr([dispatch.files, dispatch.entry, constants, bindings])
        if key not in self.numbers:
            self.numbers[key] = len(self.made)
            made = {"files": dispatch.files, "entry": dispatch.entry, "constants": constants, "bindings": bindings}
            self.made.append(made)
        return self.numbers[key]


def words(mode: str, dispatch: Dispatch, pipelines: Pipelines, plan: GpuPlan) -> list[int]:
    """A dispatch: its pipeline, its grid, and of each binding the buffer, the place and the size."""
    result = [pipelines.number(dispatch), dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]]
    for absent, side in ((plan.nothing, dispatch.reads), (plan.nowhere, dispatch.writes)):
        missing = 0  # no two outputs may share a place, not even one that nobody looks at
        for _, tensor in side:
            if tensor is None:
                result += [absent, 4 * ALIGNMENT * missing, 4 * ALIGNMENT]
                missing += 1
            else:
                buffer, start, size = plan.find(mode, tensor)
                result += [buffer, 4 * start, 4 * size]
    return result


def gpu_recipe(config: RunConfig, device: Device) -> "dict[str, Any]":
    return recipe_of(config, GpuLowered(config, device))


def recipe_of(config: RunConfig, lowered: GpuLowered) -> "dict[str, Any]":
    memory, plan = lowered.memory, lowered.plan
    pipelines = Pipelines()
    dispatches: dict[str, Any] = {}
    for mode in sorted(lowered.dispatches):
        dispatches[mode] = [words(mode, dispatch, pipelines, plan) for dispatch in lowered.dispatches[mode]]
    starts = {move.name: move.start for move in memory.layout.moves}
    draws, fills = [], []
    every = parameters(config.model)
    for index in range(len(every)):
        row = every[index]
        if row.std:
            draws.append([starts[row.name], row.size, index] + double_words(row.std))
        elif row.fill:
            fills.append([starts[row.name], row.size] + double_words(row.fill))
    places = {}
    for tensor in memory.tensors():
        if tensor.kind in ("input", "output"):
            buffer, start = plan.fixed[tensor.name]
            places[tensor.name] = [buffer, 4 * start, tensor.size]
    segments = []
    for segment in lowered.segments:
        row_ = [segment.start, segment.floats]
        for kind in ("weight", "m", "v"):
            row_.append(plan.fixed[segment.tensors[kind].name][0])
        segments.append(row_)
    return {
        "batch": config.train.batch,
        "ctx": config.model.ctx,
        "grad_accum": config.train.grad_accum,
        "seed": config.train.seed,
        "parameters": parameter_count(config.model),
        "slices": lowered.slices,
        "buffers": [4 * floats for floats in plan.buffers],
        "inputs": plan.inputs,
        "places": places,
        "segments": segments,  # where each begins in the flat vectors, its floats, and its buffers of weights, m and v
        "moves": [[move.offset, move.start, move.size] for move in memory.layout.moves],  # file, flat vector, floats
        "draws": draws,  # place in the flat vector, floats, index of the parameter, std
        "fills": fills,  # place in the flat vector, floats, value
        "pipelines": pipelines.made,
        "programs": dispatches,
    }
