"""From a program to what a GPU engine takes verbatim: buffers, pipelines, bindings and grids."""

from tinygpt.core.config import RunConfig
from tinygpt.core.models.gpt import Memory, programs
from tinygpt.core.ops.gpu import Device, Dispatch, Target, ceil_div
from tinygpt.core.ops.linear import are_pair, backward
from tinygpt.core.ops.op import Op, Program
from tinygpt.core.plan.cpu.lowering import check_sizes
from tinygpt.core.plan.gpu.memory import GpuPlan, plan_gpu, segments_of
from tinygpt.core.plan.layout import Layout, aligned
from tinygpt.core.plan.verify import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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


def lower_program(program: Program, target: Target) -> list[Dispatch]:
    result: list[Dispatch] = []
    index = 0
    while index < len(program.ops):
        op, ops = program.ops[index], [index]
        target.index = index
        if index + 1 < len(program.ops) and are_pair(op, program.ops[index + 1]):
            made, ops = backward(op, program.ops[index + 1], target), [index, index + 1]
        else:
            made = op.declared.dispatch(op, target)
        for dispatch in made:
            dispatch.ops = ops
        result += made
        index += len(ops)
    return result


class GpuLowered:
    """Everything a GPU engine needs to know of a run."""

    def __init__(self, config: RunConfig, device: Device) -> None:
        check_sizes(config)
        self.device = device
        self.memory: Memory
        self.memory, made = programs(config)
        self.slices = slices_of(config, self.memory.layout, device)
        self.programs: dict[str, Program] = {program.mode: program for program in made}
        self.segments = segments_of(self.memory.layout, self.slices, device)
        self.dispatches: dict[str, list[Dispatch]] = {}
        target = Target(device, self.slices, self.segments)
        for program in made:
            verify(program)
            self.dispatches[program.mode] = lower_program(program, target)
        self.plan: GpuPlan = plan_gpu(self.memory, self.segments, self.slices, device, self.dispatches)

    def op_times(self, mode: str, nanoseconds: "Iterable[float]") -> list[tuple[Op, float]]:
        """Each op of a program with its seconds, from the time of each dispatch."""
        ops = self.programs[mode].ops
        seconds = [0.0] * len(ops)
        for dispatch, spent in zip(self.dispatches[mode], nanoseconds):  # noqa: B905 (MicroPython's takes no strict)
            for op in dispatch.ops:
                seconds[op] += 1e-9 * spent / len(dispatch.ops)
        return list(zip(ops, seconds))  # noqa: B905
