"""One call of a kernel as a player replays it: its arguments by chance, the buffers that hold them, its dispatches.

Every tensor has a buffer of its own, with guards after it that a kernel must leave alone.
"""

from array import array

import numpy as np

from tinygpt.core.ops.gpu import SLICE_LINE, Target, ceil_div
from tinygpt.core.ops.op import KERNELS, Op, Tensor, elements, float_bits
from tinygpt.core.plan.gpu.playbook import Pipelines
from tinygpt.labs.wgsl.loops import SAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.ops.gpu import Device, Dispatch
    from tinygpt.labs.wgsl.lab import Dims, Given, KernelLab

GUARD = 64  # words after every tensor
GUARD_BITS = 0x7FA5A5A5  # a NaN: it spoils what reads it
NOTHING = 64  # floats of what is bound in place of an absent tensor


def is_gradient(kernel: str, name: str) -> bool:
    """Whether a GPU keeps it in slices."""
    return name == "grads" or (name in KERNELS[kernel].updated and name.startswith("d") and name != "dx")


class Call:
    def __init__(self, lab: "KernelLab", kernel: str, dims: "Dims", seed: int, drawn: bool = True) -> None:
        """One that is not `drawn` has no arguments: a player's memory is zero to begin with."""
        declared = KERNELS[kernel]
        self.kernel, self.dims = kernel, dims
        self.sizes: dict[str, Any] = {name: dims[name] for name in dims if isinstance(dims[name], (int, float))}
        for _, others in lab.cases:
            for name in others:
                if others[name] is None:
                    self.sizes[name] = "absent" if name in dims and dims[name] is None else "given"
        numbers: dict[str, Any] = dict(declared.defaults)
        numbers.update(lab.scalars)
        numbers.update(dims)
        bits = [float_bits(float(numbers[name])) for name in declared.scalars]
        whole = [numbers[name] for name in declared.dims]
        shapes = Op(kernel, [], whole, bits)
        tensors: list[Tensor | None] = []
        for name in declared.tensors:
            kind = "grad" if is_gradient(kernel, name) else "temp"
            absent = name in dims and dims[name] is None
            shape = dims[name] if isinstance(dims.get(name), tuple) else shapes.shape(name)
            tensors.append(None if absent else Tensor(name, shape, kind, declared.dtypes.get(name, "f32")))
        self.op = Op(kernel, tensors, whole, bits)
        self.given: Given = {name: numbers[name] for name in declared.dims}
        for name in declared.scalars:
            self.given[name] = self.op.scalar(name)
        self.slices = 1
        for name in declared.tensors:
            if is_gradient(kernel, name) and dims.get(name, 0) is not None:
                self.slices = 1 + seed % 2
        if drawn:
            self.draw(lab, np.random.default_rng(seed + 1))

    def draw(self, lab: "KernelLab", rng: "Any") -> None:
        declared, updated = self.op.declared, self.op.updated()
        for name in declared.tensors:
            tensor = self.op.tensor(name)
            if tensor is None:
                self.given[name] = None
            elif isinstance(self.dims.get(name), list):
                self.given[name] = np.array(self.dims[name])
            elif name in declared.outputs and name not in updated:  # must be written whole
                self.given[name] = np.full(tensor.shape, 0 if tensor.dtype == "i32" else np.nan)
            elif tensor.dtype == "i32":
                self.given[name] = rng.integers(0, self.dims.get("V", 256), size=tensor.shape)
            else:
                normal = rng.normal(size=tensor.shape)
                fill = lab.fills.get(name)
                self.given[name] = normal if fill is None else fill(normal, self.dims, rng)
        if lab.settle is not None:
            lab.settle(self.given)
        for name in declared.tensors:  # both sides begin with the same numbers
            if self.given[name] is not None and self.op.tensor(name).dtype == "f32":  # type: ignore[union-attr]
                self.given[name] = self.given[name].astype(np.float32).astype(np.float64)

    def tensors(self) -> "list[Tensor]":
        return [tensor for tensor in self.op.tensors if tensor is not None]

    # --- its memory, as bytes

    def packed(self, tensor: Tensor) -> bytes:
        """What is in its buffer before the call."""
        values = self.given[tensor.name].reshape(-1).tolist()
        guard = bytes(array("i", [GUARD_BITS] * GUARD))
        if tensor.dtype == "i32":
            return bytes(array("i", [int(value) for value in values])) + guard
        if tensor.kind == "grad":
            values = sliced(values, self.slices)
        return bytes(array("f", values)) + guard

    def unpacked(self, tensor: Tensor, data: bytes) -> "tuple[Any, bool]":
        """What is there after it, and whether the guards are as they were."""
        guard = bytes(array("i", [GUARD_BITS] * GUARD))
        inside = data[: len(data) - len(guard)]
        values: list[Any] = list(array("i" if tensor.dtype == "i32" else "f", inside))
        if tensor.kind == "grad":
            values = unsliced(values, self.slices, elements(tensor.shape))
        return np.array(values).reshape(tensor.shape), data[len(inside) :] == guard

    def words(self, tensor: Tensor) -> int:
        """Of its buffer."""
        copies = ceil_div(tensor.size, SLICE_LINE) * SLICE_LINE * self.slices if tensor.kind == "grad" else tensor.size
        return copies + GUARD


def place_of(i: int, slice: int, slices: int) -> int:
    return (i // SLICE_LINE * slices + slice) * SLICE_LINE + i % SLICE_LINE


def sliced(values: "list[float]", slices: int) -> "list[float]":
    """A gradient as a GPU keeps it: each number in one of the slices. What must be overwritten is NaN in all."""
    made = [0.0] * (ceil_div(len(values), SLICE_LINE) * SLICE_LINE * slices)
    for i in range(len(values)):
        for slice in range(slices):
            if values[i] != values[i] or slice == i % slices:
                made[place_of(i, slice, slices)] = values[i]
    return made


def unsliced(values: "list[float]", slices: int, count: int) -> "list[float]":
    return [sum([values[place_of(i, slice, slices)] for slice in range(slices)]) for i in range(count)]


class Playbook:
    """Calls as a player takes them, each a program of its own."""

    def __init__(self, device: "Device") -> None:
        self.device = device
        self.pipelines = Pipelines()
        self.buffers: list[int] = []  # bytes
        self.programs: dict[str, list[list[int]]] = {}
        self.places: dict[str, dict[str, int]] = {}  # by program, each tensor's buffer
        self.watching: int | None = None  # the binding that says whether the reader's loops ended

    def buffer(self, floats: int) -> int:
        self.buffers.append(4 * floats)
        return len(self.buffers) - 1

    def take(self, program: str, call: Call, files: "dict[str, str]", times: int = 1, of: "str | None" = None) -> None:
        """Adds a program. `files` are to be found under other names. It has buffers of its own, or those of the program
        `of`."""
        held = self.places[of] if of else {tensor.name: self.buffer(call.words(tensor)) for tensor in call.tensors()}
        self.places[program] = held
        made = call.op.declared.dispatch(call.op, Target(self.device, call.slices))
        self.programs[program] = [self.dispatched(one, held, files) for one in made] * times

    def dispatched(self, dispatch: "Dispatch", held: "dict[str, int]", files: "dict[str, str]") -> "list[int]":
        if self.watching is not None and [one for one in dispatch.files if one in files]:
            while len(dispatch.reads) + len(dispatch.writes) < self.watching:
                dispatch.writes.append(("", None))
            dispatch.writes.append((SAYS, Tensor(SAYS, (NOTHING,))))
        dispatch.files = [files.get(one, one) for one in dispatch.files]
        words = [self.pipelines.number(dispatch), dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]]
        for _, tensor in dispatch.reads + dispatch.writes:
            if tensor is None:
                words += [self.buffer(NOTHING), 0, 4 * NOTHING]
            else:
                if tensor.name not in held:  # what its dispatches hand to each other
                    held[tensor.name] = self.buffer(tensor.size + GUARD)
                number = held[tensor.name]
                words += [number, 0, self.buffers[number]]
        return words

    def data(self) -> "dict[str, Any]":
        return {"buffers": self.buffers, "pipelines": self.pipelines.made, "programs": self.programs}
