"""`tinygpt program --memory`: where each tensor is, when it is alive, and whose place it takes."""

from __future__ import annotations

from rich.table import Table

from tinygpt.cli.output import Output, size_of
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.plan.memory import Slot


def show_memory(output: Output, mode: str, lowered: Lowered) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("from op", "to op", "at byte"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("tensor", overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("takes the place of", overflow="fold", style="dim")
    slots = sorted(lowered.plan.temporary[mode], key=lambda slot: (slot.first, slot.start))
    for slot in slots:
        before = ", ".join(other.tensor.name for other in replaced(slot, slots))
        where = (str(slot.first), str(slot.last), f"{4 * slot.start:,}")
        table.add_row(*where, slot.tensor.name, size_of(4 * slot.size), before)
    output.console.print(table)


def replaced(slot: Slot, slots: list[Slot]) -> list[Slot]:
    """The tensors that were in this slot's place last, and are dead: each byte's last owner."""
    earlier = [other for other in slots if other.last < slot.first]
    earlier.sort(key=lambda other: other.last, reverse=True)
    free = [(slot.start, slot.start + slot.size)]  # stretches whose last owner is not found yet
    found = []
    for other in earlier:
        left = [rest for stretch in free for rest in outside(stretch, other.start, other.start + other.size)]
        if left != free:
            found.append(other)
        free = left
    return found


def outside(stretch: tuple[int, int], begin: int, end: int) -> list[tuple[int, int]]:
    """What of a stretch is not between `begin` and `end`."""
    first, last = stretch
    if end <= first or begin >= last:
        return [stretch]
    return [part for part in ((first, begin), (end, last)) if part[0] < part[1]]
