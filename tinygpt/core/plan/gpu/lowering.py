"""From a program to what a GPU engine takes verbatim: buffers, pipelines, bindings and grids."""

from tinygpt.core.config import RunConfig
from tinygpt.core.models.layout import Layout, aligned
from tinygpt.core.ops.gpu import Device, Dispatch, Target, ceil_div
from tinygpt.core.ops.linear import are_pair, backward
from tinygpt.core.ops.linear_normed import are_normed, normed_linear
from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.ops.qk_turn import are_turned, turned
from tinygpt.core.passes import DISPATCHES
from tinygpt.core.plan.gpu.memory import FLAT, GpuPlan, base_segments_of, plan_gpu, segments_of
from tinygpt.core.plan.gpu.playbook import Pipelines, words
from tinygpt.core.plan.programs import MadePrograms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MAX_SLICES = 8
SLICE_TILE = 64  # a weight's gradient is computed in tiles of about so many rows and columns
MIN_SLICE_ROWS = 64


def slices_of(config: RunConfig, layout: Layout, device: Device) -> int:
    """In how many slices gradients are kept: so many that the smallest weight's keeps the device busy, and the
    largest's can still be bound."""
    tiles = ceil_div(config.model.d_model, SLICE_TILE) ** 2
    rows = config.train.batch * config.model.ctx
    wanted = ceil_div(device.processors, tiles)
    largest = 4 * max([aligned(place.size) for place in layout.places])
    possible = min(device.max_binding, device.max_buffer) // largest
    return max(1, min(MAX_SLICES, wanted, rows // MIN_SLICE_ROWS, possible))


def lower_program(program: Program, target: Target, fused: bool = True) -> list[Dispatch]:
    """`fused`: two ops may be one dispatch."""
    result: list[Dispatch] = []
    index = 0
    while index < len(program.ops):
        op, ops = program.ops[index], [index]
        target.index = index
        next_op = program.ops[index + 1] if index + 1 < len(program.ops) else op
        if not fused:
            made = op.declared.dispatch(op, target)
        elif are_pair(op, next_op):
            made, ops = backward(op, next_op, target), [index, index + 1]
        elif are_normed(op, next_op, target):
            made, ops = normed_linear(op, next_op, target), [index, index + 1]
        elif are_turned(op, next_op):
            made, ops = turned(op, next_op, target), [index, index + 1]
        else:
            made = op.declared.dispatch(op, target)
        for dispatch in made:
            dispatch.ops = ops
        result += made
        index += len(ops)
    return result


class GpuLowered(MadePrograms):
    """Everything a GPU's player needs to know of some programs of a run."""

    def __init__(
        self,
        config: RunConfig,
        device: Device,
        modes: list[str],
        train_bytes: int = 0,
        val_bytes: int = 0,
        **how: "Any",
    ) -> None:
        MadePrograms.__init__(self, config, modes, train_bytes, val_bytes, **how)
        self.device = device
        self.slices = slices_of(config, self.memory.layout, device)
        self.segments = segments_of(self.memory, self.slices, device)
        self.dispatches: dict[str, list[Dispatch]] = {}
        base_segments = base_segments_of(self.memory, device)
        target = Target(device, self.slices, self.segments, base_segments)
        self.segments = self.segments + base_segments
        for mode in modes:
            self.dispatches[mode] = lower_program(self.programs[mode], target, DISPATCHES not in self.without)
        self.plan: GpuPlan = plan_gpu(self.tensors, self.segments, self.slices, device, self.dispatches)

    def bytes(self) -> int:
        return self.plan.bytes()

    def places(self, tensor: Tensor, start: int, floats: int) -> list[list[int]]:
        if tensor.kind not in FLAT:
            buffer, place = self.plan.fixed[tensor.name]
            return [[buffer, 4 * (place + start), 4 * floats]]
        places, copies = [], self.plan.copies(tensor)
        for segment in [one for one in self.segments if tensor.name in one.tensors]:
            begin, end = max(start, segment.start), min(start + floats, segment.start + segment.floats)
            if begin < end:
                buffer, _ = self.plan.fixed[segment.tensors[tensor.name].name]
                places.append([buffer, 4 * (begin - segment.start) * copies, 4 * (end - begin) * copies])
        return places

    def playbook(self) -> "dict[str, Any]":
        """What a player takes, as plain data: whole numbers and texts only (web/src/players/contract.ts)."""
        pipelines = Pipelines()
        programs: dict[str, Any] = {}
        for mode in sorted(self.dispatches):
            programs[mode] = [words(mode, dispatch, pipelines, self.plan) for dispatch in self.dispatches[mode]]
        buffers = [4 * floats for floats in self.plan.buffers]
        return {"buffers": buffers, "pipelines": pipelines.made, "programs": programs}

    def let_go(self) -> None:
        """Forget all but the places of what outlives a run: the player has the rest."""
        self.programs, self.dispatches, self.plan.temporary = {}, {}, {}

    def op_times(self, mode: str, seconds: "Iterable[float]") -> list[tuple[Op, float]]:
        """Each op of a program with its seconds, from the time of each dispatch."""
        ops = self.programs[mode].ops
        totals = [0.0] * len(ops)
        for dispatch, spent in zip(self.dispatches[mode], seconds):  # noqa: B905 (MicroPython's takes no strict)
            for op in dispatch.ops:
                totals[op] += spent / len(dispatch.ops)
        return list(zip(ops, totals))  # noqa: B905
