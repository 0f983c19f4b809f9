"""A planned step as data to draw: its ops in phases, and where each tensor is from which op to which."""

from tinygpt.core.ops.op import Op, bits_float

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.plan.cpu.lowering import Lowered
    from tinygpt.core.plan.memory import Slot

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


def phases_of(ops: list[Op]) -> list[str]:
    """Forward up to the loss, backward up to the gradients' norm, then the update."""
    phase, found = FORWARD, []
    for op in ops:
        if op.kernel == "grad_norm":
            phase = UPDATE
        found.append(phase)
        if op.kernel == "mean_loss" and phase == FORWARD:
            phase = BACKWARD
    return found


def ops_data(ops: list[Op], milliseconds: "list[float]") -> "list[dict[str, Any]]":
    """`milliseconds` are those of each op, or none."""
    phases = phases_of(ops)
    return [op_data(ops[i], phases[i], milliseconds[i] if milliseconds else None) for i in range(len(ops))]


def op_data(op: Op, phase: str, ms: "float | None") -> "dict[str, Any]":
    numbers: dict[str, float] = {}
    for name in op.declared.dims:
        numbers[name] = op.dim(name)
    for name, bits in zip(op.declared.scalars, op.scalars):  # noqa: B905 (MicroPython's zip takes no strict)
        numbers[name] = float(f"{bits_float(bits):.7g}")
    return {
        "kernel": op.kernel,
        "phase": phase,
        "reads": [[tensor.name, list(tensor.shape), tensor.root().name] for tensor in op.reads()],
        "writes": [[tensor.name, list(tensor.shape), tensor.root().name] for tensor in op.writes()],
        "numbers": numbers,
        "flops": op.flops(),
        "bytes": op.bytes_touched(),
        "ms": ms,
    }


def slots_data(lowered: "Lowered", mode: str) -> "list[dict[str, Any]]":
    plan, ops = lowered.plan, lowered.programs[mode].ops
    return [slot_data(slot, len(ops)) for slot in plan.persistent + plan.temporary[mode]]


def slot_data(slot: "Slot", ops: int) -> "dict[str, Any]":
    alive = slot.tensor.kind == "temp"
    return {
        "name": slot.tensor.name,
        "shape": list(slot.tensor.shape),
        "kind": slot.tensor.kind,
        "start": slot.start,
        "size": slot.size,
        "first": slot.first if alive else 0,
        "last": slot.last if alive else ops - 1,
    }
