"""A GPU's memory: a few buffers, within the device's limits, planned before anything is created.

The flat vectors (weights, gradients, the optimizer's slots) are cut into segments that one binding can show, each in a
buffer of its own, as is each text; all inputs share one buffer. Everything else goes to a few arenas. WebGPU refuses a
dispatch that binds one buffer both for reading and for writing, even at places far apart: so tensors are given colours,
an arena for each, such that no dispatch reads and writes the same colour. In an arena a tensor's place is chosen by its
lifetime.
"""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.layout import Layout, aligned
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.gpu import Device, Dispatch, Segment
from tinygpt.core.ops.op import ALIGNMENT, Tensor
from tinygpt.core.plan.memory import Slot, place
from tinygpt.core.wording import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding

MAX_ABSENT = 4  # inputs, or outputs, that a dispatch may lack
FLAT = ("weight", "grad", "slot", "frozen")
MAX_BINDINGS = 8  # storage buffers of a dispatch; every WebGPU device has so many


def segments_of(memory: Memory, slices: int, device: Device) -> list[Segment]:
    """Of all that is trained."""
    return cut(memory.layout, memory.flat(), slices, device)


def base_segments_of(memory: Memory, device: Device) -> list[Segment]:
    """Of what adapters stand on, if they do."""
    if memory.base is None or memory.base_layout is None:
        return []
    return cut(memory.base_layout, [memory.base], 1, device)


def cut(layout: Layout, vectors: list[Tensor], slices: int, device: Device) -> list[Segment]:
    """Between two parameters, wherever a binding would show too much."""
    limit = min(device.max_binding, device.max_buffer) // 4 // slices
    cuts = [0]
    for place_ in layout.places:
        if aligned(place_.size) > limit:
            raise TinyGPTError(
                f"{place_.name} has {size_text(4 * place_.size * slices)}, more than this GPU binds at once; "
                f"use a smaller d_model, or another engine"
            )
        if place_.start + aligned(place_.size) - cuts[-1] > limit:
            cuts.append(place_.start)
    segments = []
    for number in range(len(cuts)):
        start = cuts[number]
        end = cuts[number + 1] if number + 1 < len(cuts) else layout.size
        decayed = max(0, min(layout.decayed, end) - start)
        tensors = {t.name: Tensor(f"{t.name}.{number}", (end - start,), t.kind) for t in vectors}
        segments.append(Segment(start, end - start, decayed, tensors))
    return segments


class GpuPlan:
    """Which buffer each tensor lies in, and where. Buffers are numbered; sizes and places are in floats."""

    def __init__(self, tensors: list[Tensor], segments: list[Segment], slices: int, device: Device) -> None:
        self.segments = segments
        self.slices = slices
        self.device = device
        self.buffers: list[int] = []
        self.owners: list[str] = []  # what a buffer is for
        self.fixed: dict[str, tuple[int, int]] = {}  # of persistent tensors by name: buffer, start
        self.temporary: dict[str, dict[str, tuple[int, int]]] = {}  # by mode
        self.nothing = self.new_buffer(MAX_ABSENT * ALIGNMENT, "absent inputs")
        self.nowhere = self.new_buffer(MAX_ABSENT * ALIGNMENT, "absent outputs")
        for segment in segments:
            for whole in tensors:
                if whole.name in segment.tensors:
                    tensor = segment.tensors[whole.name]
                    self.fixed[tensor.name] = (self.new_buffer(tensor.size * self.copies(tensor), tensor.name), 0)
        inputs = self.new_buffer(0, "inputs")
        for tensor in tensors:
            if tensor.kind == "input":
                self.fixed[tensor.name] = (inputs, self.buffers[inputs])
                self.buffers[inputs] += aligned(tensor.size)
            elif tensor.kind in ("corpus", "table"):
                check_whole(tensor, device)
                self.fixed[tensor.name] = (self.new_buffer(aligned(tensor.size), tensor.name), 0)

    def new_buffer(self, floats: int, owner: str) -> int:
        self.buffers.append(floats)
        self.owners.append(owner)
        return len(self.buffers) - 1

    def copies(self, tensor: Tensor) -> int:
        return self.slices if tensor.kind == "grad" else 1

    def find(self, mode: str, tensor: Tensor) -> tuple[int, int, int]:
        """What is bound for a tensor: the buffer, the place there and the size, in floats. It has an offset there."""
        name, first = tensor.root().name, tensor.start - tensor.offset()
        size = tensor.offset() + tensor.span()
        if tensor.kind == "grad":
            size = aligned(size) * self.slices  # the last line's slices are whole
        if tensor.kind in FLAT and name not in self.fixed:
            for segment in self.segments:
                if name in segment.tensors and segment.start <= tensor.start < segment.start + segment.floats:
                    buffer, _ = self.fixed[segment.tensors[name].name]
                    return buffer, (first - segment.start) * self.copies(tensor), size
        buffer, start = self.fixed[name] if name in self.fixed else self.temporary[mode][name]
        return buffer, start + first, size

    def bytes(self) -> int:
        return 4 * sum(self.buffers)


def plan_gpu(
    tensors: list[Tensor], segments: list[Segment], slices: int, device: Device, dispatches: dict[str, list[Dispatch]]
) -> GpuPlan:
    """Place the persistent tensors, and everything else that the dispatches, by mode, name."""
    plan = GpuPlan(tensors, segments, slices, device)
    slots = {mode: lifetimes(dispatches[mode], plan) for mode in sorted(dispatches)}
    persistent = [tensor for tensor in tensors if tensor.kind in ("output", "state")]
    colours = colour(dispatches, plan)
    used: list[int] = []
    for name in colours:
        if colours[name] not in used:
            used.append(colours[name])
    for number in sorted(used):
        fixed = [tensor for tensor in persistent if colours.get(tensor.name, 0) == number]
        place_arena(plan, fixed, {mode: [s for s in slots[mode] if colours[s.tensor.name] == number] for mode in slots})
    verify_gpu_plan(plan, dispatches)
    return plan


def placed_elsewhere(tensor: Tensor, plan: GpuPlan) -> bool:
    return tensor.kind in FLAT or tensor.name in plan.fixed


def named_in(side: "list[Binding]") -> list[Tensor]:
    """The tensors with memory of their own that bindings show, whole or in part."""
    return [tensor.root() for _, tensor in side if tensor is not None]


def lifetimes(dispatches: list[Dispatch], plan: GpuPlan) -> list[Slot]:
    """A slot for each temporary tensor: from the first dispatch that names it to the last."""
    slots: dict[str, Slot] = {}
    order = []
    for index in range(len(dispatches)):
        for tensor in named_in(dispatches[index].reads + dispatches[index].writes):
            if tensor.kind != "temp":
                continue
            if tensor.name not in slots:
                slots[tensor.name] = Slot(tensor, index, index)
                order.append(slots[tensor.name])
            slots[tensor.name].last = index
    return order


def colour(dispatches: dict[str, list[Dispatch]], plan: GpuPlan) -> dict[str, int]:
    """A colour for each tensor of the arenas, by name: the first that none of its opponents has."""
    opponents: dict[str, list[str]] = {}
    order = []
    for mode in sorted(dispatches):
        for dispatch in dispatches[mode]:
            sides = []
            for side in (dispatch.reads, dispatch.writes):
                here = [t.name for t in named_in(side) if not placed_elsewhere(t, plan)]
                for name in here:
                    if name not in opponents:
                        opponents[name] = []
                        order.append(name)
                sides.append(here)
            for a in sides[0]:
                for b in sides[1]:
                    opponents[a].append(b)
                    opponents[b].append(a)
    colours: dict[str, int] = {}
    for name in order:
        taken = [colours[other] for other in opponents[name] if other in colours]
        number = 0
        while number in taken:
            number += 1
        colours[name] = number
    return colours


def place_arena(plan: GpuPlan, fixed: list[Tensor], slots: dict[str, list[Slot]]) -> None:
    """Put tensors of one colour into a buffer, and what is beyond its largest size into further ones."""
    limit = plan.device.max_buffer // 4
    buffer = plan.new_buffer(0, "arena")
    further, end = [], 0
    for tensor in fixed:
        check_binding(tensor, plan.device)
        if end + aligned(tensor.size) <= limit:
            plan.fixed[tensor.name] = (buffer, end)
            end += aligned(tensor.size)
        else:
            further.append(tensor)
    size, left = end, {}
    for mode in sorted(slots):
        for slot in slots[mode]:
            check_binding(slot.tensor, plan.device)
        place(slots[mode], end)
        left[mode] = [slot for slot in slots[mode] if slot.start + slot.size > limit]
        here = plan.temporary.setdefault(mode, {})
        for slot in slots[mode]:
            if slot.start + slot.size <= limit:
                here[slot.tensor.name] = (buffer, slot.start)
                size = max(size, slot.start + slot.size)
    plan.buffers[buffer] = size
    if further or any(left[mode] for mode in left):
        place_arena(plan, further, left)


def check_whole(tensor: Tensor, device: Device) -> None:
    """What has a buffer of its own is bound whole."""
    most = min(device.max_binding, device.max_buffer)
    if 4 * aligned(tensor.size) > most:
        what, remedy = (
            ("the text has", "use less of it")
            if tensor.kind == "corpus"
            else ("the n-gram tables have", "choose fewer ngram_rows")
        )
        raise TinyGPTError(
            f"{what} {size_text(4 * tensor.size)}, more than the {size_text(most)} that this GPU binds at once; "
            f"{remedy}, or another engine"
        )


def check_binding(tensor: Tensor, device: Device) -> None:
    if 4 * tensor.size > device.max_binding or 4 * aligned(tensor.size) > device.max_buffer:
        raise TinyGPTError(
            f"{tensor.name} has {size_text(4 * tensor.size)}, more than this GPU binds at once; "
            f"use a smaller batch or ctx, or another engine"
        )


def verify_gpu_plan(plan: GpuPlan, dispatches: dict[str, list[Dispatch]]) -> None:
    """Bindings lie inside their buffers, no more and no larger than they may be, and no dispatch reads what it writes.

    Grids are no longer than the device's.
    """
    device = plan.device
    for floats in plan.buffers:
        if 4 * floats > device.max_buffer:
            raise TinyGPTError("the GPU's plan has a buffer larger than the GPU's; this is a bug")
    for mode in dispatches:
        for dispatch in dispatches[mode]:
            where = f"{dispatch.entry} of the GPU's {mode} plan"
            sides = []
            for side in (dispatch.reads, dispatch.writes):
                found = [plan.find(mode, tensor) for _, tensor in side if tensor is not None]
                for buffer, start, size in found:
                    if start % ALIGNMENT or start + size > plan.buffers[buffer] or 4 * size > device.max_binding:
                        raise TinyGPTError(f"{where} has a wrong binding; this is a bug")
                sides.append([buffer for buffer, _, _ in found])
            if any(buffer in sides[1] for buffer in sides[0]):
                raise TinyGPTError(f"{where} reads and writes one buffer; this is a bug")
            if len(dispatch.reads) + len(dispatch.writes) > MAX_BINDINGS:
                raise TinyGPTError(f"{where} has more than {MAX_BINDINGS} bindings; this is a bug")
            if max(dispatch.grid) > device.max_groups:
                raise TinyGPTError(
                    f"{where} takes {max(dispatch.grid):,} workgroups in a row, more than this GPU's "
                    f"{device.max_groups:,}; use a smaller batch or ctx, or another engine"
                )
