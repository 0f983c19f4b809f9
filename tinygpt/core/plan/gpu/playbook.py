"""Pipelines and dispatches as a GPU's player takes them: whole numbers and texts. Places and sizes are in bytes."""

from tinygpt.core.ops.gpu import Device, Dispatch
from tinygpt.core.ops.op import ALIGNMENT, float_bits
from tinygpt.core.plan.gpu.memory import GpuPlan

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
