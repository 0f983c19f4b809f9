"""The arena: every tensor gets its place before anything runs, by the time it is alive.

Persistent tensors (weights, gradients, the optimizer's slots, inputs, outputs, caches) come first. A temporary one
lives from the op that writes it to the last that reads it, and may reuse the place of one that is no longer needed.
The programs of a model never run at once, so their temporaries share one stretch.
"""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.layout import LINE, aligned
from tinygpt.core.ops.op import Program, Tensor

# first, last: the ops between which a tensor is alive, both included.
# start: its place in the arena, in floats; always a multiple of LINE.


class Slot:
    def __init__(self, tensor: Tensor, first: int, last: int) -> None:
        self.tensor = tensor
        self.first = first
        self.last = last
        self.size = aligned(tensor.size)
        self.start = -1


class Plan:
    """Places for the persistent tensors and, program by program, for the temporary ones (in floats)."""

    def __init__(self) -> None:
        self.persistent: list[Slot] = []
        self.temporary: dict[str, list[Slot]] = {}  # by mode
        self.starts: dict[str, dict[str, int]] = {}  # by mode, then by tensor name
        self.persistent_size = 0
        self.size = 0

    def start(self, mode: str, tensor: Tensor) -> int:
        return self.starts[mode][tensor.root().name] + tensor.start

    def persistent_start(self, tensor: Tensor) -> int:
        for slot in self.persistent:
            if slot.tensor.name == tensor.name:
                return slot.start
        raise TinyGPTError(f"no program that was planned has {tensor.name}; this is a bug")

    def bytes(self) -> int:
        return 4 * self.size


def lifetimes(program: Program, scratch: list[Tensor | None]) -> list[Slot]:
    """A slot for each temporary of the program, and for the scratch of each op (alive in that op alone).

    A view keeps the tensor alive that it is a part of.
    """
    by_name: dict[str, Slot] = {}
    slots = []
    for index in range(len(program.ops)):
        op = program.ops[index]
        for tensor in [argument.root() for argument in op.reads() + op.writes()]:
            if tensor.kind != "temp":
                continue
            if tensor.name not in by_name:
                by_name[tensor.name] = Slot(tensor, index, index)
                slots.append(by_name[tensor.name])
            by_name[tensor.name].last = index
        own = scratch[index]
        if own is not None:
            slots.append(Slot(own, index, index))
    return slots


def place(slots: list[Slot], base: int) -> int:
    """Give each slot the lowest start at which it meets no living neighbour, the largest first. Returns the end."""
    end = base
    placed: list[Slot] = []
    for slot in sorted(slots, key=lambda slot: (-slot.size, slot.first, slot.tensor.name)):
        first, last = slot.first, slot.last
        alive = [other for other in placed if first <= other.last and other.first <= last]
        neighbours = sorted(alive, key=lambda other: other.start)
        start = base
        for other in neighbours:
            if start + slot.size <= other.start:
                break
            start = max(start, other.start + other.size)
        slot.start = start
        placed.append(slot)
        end = max(end, start + slot.size)
    return end


def plan(persistent: list[Tensor], programs: list[Program], scratch: dict[str, list[Tensor | None]]) -> Plan:
    """Place everything. `scratch` holds, by mode, the working memory each op's kernel asks for."""
    result = Plan()
    for tensor in persistent:
        slot = Slot(tensor, 0, 0)
        slot.start = result.persistent_size
        result.persistent.append(slot)
        result.persistent_size += slot.size
    result.size = result.persistent_size
    for program in programs:
        slots = lifetimes(program, scratch[program.mode])
        result.size = max(result.size, place(slots, result.persistent_size))
        result.temporary[program.mode] = slots
        result.starts[program.mode] = {slot.tensor.name: slot.start for slot in result.persistent + slots}
    verify_plan(result)
    return result


def verify_plan(result: Plan) -> None:
    """No two tensors that are alive at once overlap, and all lie on lines within the arena."""
    for mode in result.temporary:
        slots = sorted(result.temporary[mode], key=lambda slot: slot.start)
        for i in range(len(slots)):
            a = slots[i]
            if a.start % LINE or a.start < result.persistent_size or a.start + a.size > result.size:
                raise TinyGPTError(f"the {mode} plan puts {a.tensor.name} outside of its place; this is a bug")
            end, first, last = a.start + a.size, a.first, a.last
            for j in range(i + 1, len(slots)):
                b = slots[j]
                if b.start >= end:
                    break
                if first <= b.last and b.first <= last:
                    raise TinyGPTError(
                        f"the {mode} plan lets {a.tensor.name} and {b.tensor.name} overlap; this is a bug"
                    )
