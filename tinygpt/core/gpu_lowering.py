"""From a program to what a GPU engine takes verbatim: buffers, pipelines, bindings and grids."""

from tinygpt.core.config import RunConfig
from tinygpt.core.gpu_attention import ATTENTION_KERNELS
from tinygpt.core.gpu_dispatch import Device, Dispatch, ceil_div
from tinygpt.core.gpu_linear import LINEAR_KERNELS, are_pair, backward
from tinygpt.core.gpu_memory import GpuPlan, Segment, plan_gpu, segments_of
from tinygpt.core.gpu_rows import ROWS_KERNELS, clip, norm_groups, square_sums
from tinygpt.core.layout import Layout, aligned
from tinygpt.core.lowering import check_sizes
from tinygpt.core.ops import Op, Program, Tensor, bits_float
from tinygpt.core.program import Memory, programs
from tinygpt.core.verify import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SLICES = 8
SLICE_TILE = 64  # a weight's gradient is computed in tiles of about so many rows and columns
MIN_SLICE_ROWS = 64


def dispatches_of(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    """The dispatches of the op that is number `index` of its program; scratch they share is named after it."""
    for kernels in (LINEAR_KERNELS, ATTENTION_KERNELS, ROWS_KERNELS):
        if op.kernel in kernels:
            return kernels[op.kernel](op, index, device, slices)
    raise KeyError(op.kernel)


def slices_of(config: RunConfig, layout: Layout, device: Device) -> int:
    """In how many slices gradients are kept: so many that the smallest weight's keeps the device busy, and the
    largest's can still be bound."""
    tiles = ceil_div(config.model.d_model, SLICE_TILE) ** 2
    rows = config.train.batch * config.model.ctx
    wanted = ceil_div(device.processors, tiles)
    largest = 4 * max([aligned(place.size) for place in layout.places])
    possible = min(device.max_binding, device.max_buffer) // largest
    return max(1, min(MAX_SLICES, wanted, rows // MIN_SLICE_ROWS, possible))


def grad_norm(op: Op, index: int, segments: list[Segment], device: Device, slices: int) -> list[Dispatch]:
    """Partial sums of each segment, then the norm of all."""
    counts = [norm_groups(segment.floats) for segment in segments]
    partials = Tensor(f"partials.{index}", (sum(counts),))
    result, first = [], 0
    for segment, count in zip(segments, counts):  # noqa: B905 (MicroPython's zip takes no strict)
        result.append(square_sums(segment.tensors["grad"], segment.floats, partials, first, count, device, slices))
        first += count
    return result + [clip(partials, first, op.tensor("norm"), bits_float(op.scalars[0]), device)]


def adamw(op: Op, index: int, segments: list[Segment], device: Device, slices: int) -> list[Dispatch]:
    result = []
    for segment in segments:
        grads, weights = segment.tensors["grad"], segment.tensors["weight"]
        tensors = [grads, op.tensor("norm"), op.tensor("rates"), weights, segment.tensors["m"], segment.tensors["v"]]
        part = Op("adamw", tensors, [segment.floats, segment.decayed], op.scalars)
        result += dispatches_of(part, index, device, slices)
    return result


def lower_program(program: Program, segments: list[Segment], device: Device, slices: int) -> list[Dispatch]:
    result: list[Dispatch] = []
    index = 0
    while index < len(program.ops):
        op, ops = program.ops[index], [index]
        if op.kernel == "grad_norm":
            made = grad_norm(op, index, segments, device, slices)
        elif op.kernel == "adamw":
            made = adamw(op, index, segments, device, slices)
        elif index + 1 < len(program.ops) and are_pair(op, program.ops[index + 1]):
            made, ops = backward(op, program.ops[index + 1], device, slices), [index, index + 1]
        else:
            made = dispatches_of(op, index, device, slices)
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
        for program in made:
            verify(program)
            self.dispatches[program.mode] = lower_program(program, self.segments, device, self.slices)
        self.plan: GpuPlan = plan_gpu(self.memory, self.segments, self.slices, device, self.dispatches)

    def op_times(self, mode: str, nanoseconds: "Iterable[float]") -> list[tuple[Op, float]]:
        """Each op of a program with its seconds, from the time of each dispatch."""
        ops = self.programs[mode].ops
        seconds = [0.0] * len(ops)
        for dispatch, spent in zip(self.dispatches[mode], nanoseconds):  # noqa: B905 (MicroPython's takes no strict)
            for op in dispatch.ops:
                seconds[op] += 1e-9 * spent / len(dispatch.ops)
        return list(zip(ops, seconds))  # noqa: B905
