"""What an op is: a kernel's declaration, a call of it on named tensors, and a program, a flat list of calls.

A program is plain data. It prints itself, every engine replays it verbatim, and it holds integers and
float32 bit patterns only, so that CPython and MicroPython build it byte for byte alike.
"""

import struct

from tinygpt.core.errors import TinyGPTError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tinygpt.core.ops.gpu import Dispatch, Target

    Count = Callable[["Op"], int]
    Lower = Callable[["Op", Target], list[Dispatch]]

# Every declared kernel by name; the files beside this one fill it (see __init__.py).
KERNELS: "dict[str, Kernel]" = {}
# Whole numbers that the C++ kernels share with their declarations, by name.
SHARED: dict[str, int] = {}
IN_A_WORD = {"u8": 4, "i8": 4, "f16": 2}  # numbers of a dtype, where that is not one
ALIGNMENT = 64  # floats: what is bound whole starts at a multiple of so many (256 bytes, where a GPU may bind a buffer)


class Kernel:
    """A kernel, declared once. Sizes have the same letters in Python, C++ and WGSL:

    B batch, T context, N = B*T rows, C width, H heads, D = C/H head size, V vocabulary,
    I and O a linear map's inputs and outputs, P parameters (with padding).
    """

    def __init__(
        self,
        name: str,
        signature: str,
        shapes: str,
        dispatch: "Lower",
        flops: "Count | None" = None,
        scratch: "Count | None" = None,
    ) -> None:
        """`signature` is "inputs -> outputs | dims | scalars". A name with ? may be absent. An output with + is read
        too: where the op has a dim `accumulate` only if that is 1; with ++ also if its dim `tied` is 1. A dim or scalar
        that calls may leave out has a value here ("accumulate=0").
        `shapes` gives tensors their axes ("x=N,C"), products with * ("qkv=B*T,3*H*D"), and their dtype where it is not
        f32: i32 ("tokens:i32=N"), f16, two in a word, or bytes, four ("corpus:u8=bytes", "weight:i8=O,I"). One without
        axes ("wte:i8") may have any. A / before the last axis ("y=N/O") says that the rows may lie apart, as those of a
        slice of columns do: the kernel is told their pitch.
        `dispatch` lowers a call for a GPU; `flops` counts the matmuls of a call (causal ones their lower half), and
        `scratch` the floats of working memory of its CPU kernel, whatever the vectors' width and the number of threads.
        """
        parts = [part.split() for part in signature.replace("->", "|").split("|")]
        parts = parts + [[]] * (4 - len(parts))
        self.name = name
        self.optional = [bare(word) for word in parts[0] + parts[1] if "?" in word]
        self.updated = [bare(word) for word in parts[1] if word.endswith("+")]
        self.tied = [bare(word) for word in parts[1] if word.endswith("++")]
        self.inputs = [bare(word) for word in parts[0]]
        self.outputs = [bare(word) for word in parts[1]]
        self.tensors = self.inputs + self.outputs
        self.dims = [word.split("=")[0] for word in parts[2]]
        self.scalars = [word.split("=")[0] for word in parts[3]]
        self.defaults: dict[str, int] = {}
        for word in parts[2] + parts[3]:
            if "=" in word:
                self.defaults[word.split("=")[0]] = int(word.split("=")[1])
        self.shapes: dict[str, list[str]] = {}
        self.dtypes: dict[str, str] = {}
        self.apart: list[str] = []  # the tensors whose rows may lie apart
        for rule in shapes.split():
            tensor, _, axes = rule.partition("=")
            tensor, _, dtype = tensor.partition(":")
            self.dtypes[tensor] = dtype or "f32"
            if axes:
                self.shapes[tensor] = axes.replace("/", ",").split(",")
            if "/" in axes:
                self.apart.append(tensor)
        # Of each axis, a number and the places of the dims that it is multiplied by: shapes are asked for often.
        self.axes: dict[str, list[tuple[int, list[int]]]] = {}
        for tensor in self.shapes:
            self.axes[tensor] = [self.factors(product) for product in self.shapes[tensor]]
        self.dispatch = dispatch
        self.flops = flops
        self.scratch = scratch

    def factors(self, product: str) -> "tuple[int, list[int]]":
        number, places = 1, []
        for factor in product.split("*"):
            if factor in self.dims:
                places.append(self.dims.index(factor))
            else:
                number *= int(factor)
        return number, places


def bare(word: str) -> str:
    return word.rstrip("+").rstrip("?")


def declare(
    name: str,
    signature: str,
    shapes: str,
    dispatch: "Lower",
    flops: "Count | None" = None,
    scratch: "Count | None" = None,
) -> None:
    KERNELS[name] = Kernel(name, signature, shapes, dispatch, flops, scratch)


def shared(name: str, value: int) -> int:
    """A constant that C++ has under that name."""
    SHARED[name] = value
    return value


def elements(shape: tuple[int, ...]) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total


def float_bits(value: float) -> int:
    """The float32 nearest to `value`, as the signed 32-bit integer of the same bits."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def bits_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def signed(word: int) -> int:
    """The signed 32-bit integer of the same bits."""
    return word - 2**32 if word >= 2**31 else word


class Tensor:
    """A named array. `kind` says who owns it:

    weight, grad, slot (what an optimizer keeps): persistent, one entry per parameter that is trained;
    table: rows that programs look up and step one by one, and what their optimizer keeps: persistent;
    frozen: the weights that adapters stand on, which the host writes and programs only read;
    compact: all weights, as a compact file keeps them, which the host writes and programs only read;
    corpus: a text that programs only read;
    input: the host writes it, programs read it;  output: programs write it, the host reads it;
    state: programs and host write it, and it lives from run to run;  temp: lives within a run.
    A view has no memory of its own: it lies `start` floats into the tensor `inside`. Rows lie `pitch` floats apart:
    side by side, but for those of a slice of columns. `size` is in floats: four of a "u8" or "i8" tensor are one.
    The values of an "i8" tensor's row are its integers times the row's entry in `scales`, another tensor.
    """

    def __init__(self, name: str, shape: tuple[int, ...], kind: str = "temp", dtype: str = "f32") -> None:
        self.name = name
        self.shape = shape
        self.kind = kind
        self.dtype = dtype
        self.inside: Tensor | None = None
        self.start = 0
        self.pitch = shape[-1]
        self.scales: Tensor | None = None
        per_float = IN_A_WORD.get(dtype, 1)
        self.size = (elements(shape) + per_float - 1) // per_float

    def root(self) -> "Tensor":
        return self.inside or self

    def view(self, name: str, shape: tuple[int, ...], start: int) -> "Tensor":
        """So many of its floats, from `start` on."""
        view = Tensor(name, shape, self.kind, self.dtype)
        view.inside, view.start = self.root(), self.start + start
        view.scales = self.scales if start == 0 else None
        return view

    def columns(self, start: int, count: int) -> "Tensor":
        """The slice [:, start : start + count] of a matrix."""
        if len(self.shape) != 2 or start < 0 or count < 1 or start + count > self.shape[1]:
            raise TinyGPTError(f"{self!r} has no columns {start} to {start + count}; this is a bug")
        view = self.view(f"{self.name}[:,{start}:{start + count}]", (self.shape[0], count), start)
        view.pitch = self.pitch
        return view

    def span(self) -> int:
        """Floats from the first of the tensor to the last; more than its size where rows lie apart."""
        if self.pitch == self.shape[-1]:
            return self.size
        return (elements(self.shape[:-1]) - 1) * self.pitch + self.shape[-1]

    def offset(self) -> int:
        """How far behind a place that can be bound it starts."""
        return self.start % ALIGNMENT

    def __repr__(self) -> str:
        return f"{self.name}[{','.join([str(dim) for dim in self.shape])}]"


class Op:
    """One kernel call. `tensors` stand in the signature's order, inputs first; None where absent."""

    def __init__(self, kernel: str, tensors: list[Tensor | None], dims: list[int], scalars: list[int]) -> None:
        self.kernel = kernel
        self.declared = KERNELS[kernel]
        self.tensors = tensors
        self.dims = dims
        self.scalars = scalars  # float32 bit patterns

    def dim(self, name: str) -> int:
        return self.dims[self.declared.dims.index(name)]

    def scalar(self, name: str) -> float:
        return bits_float(self.scalars[self.declared.scalars.index(name)])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape this call gives its tensor `name`."""
        if name not in self.declared.shapes:
            tensor = self.tensor(name)
            return tensor.shape if tensor is not None else ()
        shape = []
        for total, places in self.declared.axes[name]:
            for place in places:
                total *= self.dims[place]
            shape.append(total)
        return tuple(shape)

    def tensor(self, name: str) -> Tensor | None:
        return self.tensors[self.declared.tensors.index(name)]

    def pitch(self, name: str) -> int:
        """How far apart the rows of its tensor lie, in floats."""
        tensor = self.tensor(name)
        if tensor is None or tensor.span() == tensor.size:
            return self.shape(name)[-1]
        return tensor.pitch

    def offset(self, name: str) -> int:
        tensor = self.tensor(name)
        return 0 if tensor is None else tensor.offset()

    def numbers(self) -> list[int]:
        """The dims, the scalars' bits, pitch and offset of tensors whose rows may lie apart: signed 32-bit words."""
        numbers = [signed(dim) for dim in self.dims] + self.scalars
        for name in self.declared.apart:
            numbers += [self.pitch(name), self.offset(name)]
        return numbers

    def reads(self) -> list[Tensor]:
        read = [t for t in self.tensors[: len(self.declared.inputs)] if t is not None]
        for name in self.updated():
            tensor = self.tensor(name)
            if tensor is not None:
                read.append(tensor)
        return read

    def writes(self) -> list[Tensor]:
        return [t for t in self.tensors[len(self.declared.inputs) :] if t is not None]

    def updated(self) -> list[str]:
        """The outputs that this call reads as well as writes."""
        if "accumulate" not in self.declared.dims or self.dim("accumulate"):
            return self.declared.updated
        return self.declared.tied if self.declared.tied and self.dim("tied") else []

    def arguments(self) -> "dict[str, Tensor | int | float | None]":
        """By name, as `op_of` takes them: without tensors that are absent and numbers that it would fill in."""
        given: dict[str, Tensor | int | float | None] = {}
        for name in self.declared.tensors:
            if self.tensor(name) is not None:
                given[name] = self.tensor(name)
        for name in self.declared.dims:
            given[name] = self.dim(name)
        for name in self.declared.scalars:
            given[name] = self.scalar(name)
        for name in self.declared.defaults:
            if given[name] == self.declared.defaults[name]:
                given.pop(name)
        return given

    def flops(self) -> int:
        return self.declared.flops(self) if self.declared.flops is not None else 0

    def bytes_touched(self) -> int:
        """Every input read once and every output written once; of a text, windows alone are read."""
        touched = [tensor for tensor in self.reads() if tensor.kind != "corpus"] + self.writes()
        return 4 * sum([tensor.size for tensor in touched])

    def scratch_floats(self) -> int:
        return self.declared.scratch(self) if self.declared.scratch is not None else 0

    def __repr__(self) -> str:
        count = len(self.declared.inputs)
        inside = ", ".join([repr(t) for t in self.tensors[:count] if t is not None])
        outside = ", ".join([repr(t) for t in self.tensors[count:] if t is not None])
        return f"{outside} = {self.kernel}({inside})"


def op_of(kernel: str, arguments: "dict[str, Tensor | int | float | None]") -> Op:
    """A call; every name of its signature must be given, but for absent tensors and defaults."""
    declared = KERNELS[kernel]
    for name in declared.defaults:
        arguments.setdefault(name, declared.defaults[name])
    tensors: list[Tensor | None] = []
    for name in declared.tensors:
        tensor = arguments.pop(name, None)
        if tensor is None and name not in declared.optional:
            raise TinyGPTError(f"a program calls {kernel} without its tensor '{name}'; this is a bug")
        tensors.append(tensor)  # type: ignore[arg-type]
    dims = [arguments.pop(name) for name in declared.dims]
    scalars = [float_bits(arguments.pop(name)) for name in declared.scalars]  # type: ignore[arg-type]
    if arguments:
        raise TinyGPTError(f"a program calls {kernel} with '{sorted(arguments)[0]}', which it does not take")
    return Op(kernel, tensors, dims, scalars)  # type: ignore[arg-type]


class Program:
    """The ops of one mode, in order, and the tensors they name."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []
        self.committed = 0  # ops before this one leave weights and states alone: until then a run can be abandoned

    def tensor(self, name: str, shape: tuple[int, ...], kind: str = "temp", dtype: str = "f32") -> Tensor:
        tensor = Tensor(name, shape, kind, dtype)
        self.tensors.append(tensor)
        return tensor

    def call(self, kernel: str, **arguments: "Tensor | int | float | None") -> None:
        """Append a kernel call."""
        self.ops.append(op_of(kernel, arguments))

    def written(self) -> "list[Tensor]":
        """Of the tensors that it names, those that an op writes."""
        names: dict[str, bool] = {}
        for op in self.ops:
            for tensor in op.writes():
                names[tensor.root().name] = True
        return [tensor for tensor in self.tensors if tensor.name in names]

    def commit(self) -> None:
        """What is called from here on is kept."""
        self.committed = len(self.ops)

    def flops(self) -> int:
        return sum([op.flops() for op in self.ops])
