"""What a GPU engine is made of: a device's limits, and dispatches, each one run of a WGSL kernel over a grid."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.op import Op, Tensor

    Constant = int | float
    Binding = tuple[str, Tensor | None]

# A gradient is kept in `slices`: slice s holds what the s-th share of a batch's rows adds to it, so that kernels
# which sum over rows can be spread over the whole device. The slices of a tensor are interleaved by lines of 64 floats:
# element i of slice s lies at (i / 64 * slices + s) * 64 + i % 64. What reads a gradient sums its slices.
SLICE_LINE = 64
GROUP = 256  # invocations of a workgroup, in all kernels that go over rows or flat vectors
ROW_LANES = 32  # invocations of a row, at least


class Device:
    """What lowering must know of a GPU. The defaults are the limits that every WebGPU device keeps to."""

    def __init__(self) -> None:
        self.max_buffer = 256 * 1024 * 1024  # bytes
        self.max_binding = 128 * 1024 * 1024  # bytes of a buffer that a kernel sees
        self.max_groups = 65535  # workgroups along an axis of a grid
        self.max_invocations = 256  # of a workgroup
        self.max_shared = 16384  # bytes of workgroup memory
        self.subgroups = False  # whether kernels may use subgroup operations
        self.f16 = False  # whether kernels may keep numbers in float16
        self.processors = 32  # a guess of how many workgroups keep it busy


class Segment:
    """A stretch of the flat vectors, cut between two parameters: so many `floats` of each.

    `tensors` are its parts of them by their names: of weights, grads and the optimizer's slots.
    """

    def __init__(self, start: int, floats: int, decayed: int, tensors: "dict[str, Tensor]") -> None:
        self.start = start
        self.floats = floats
        self.decayed = decayed  # of its floats, those subject to weight decay
        self.tensors = tensors


class Target:
    """What an op is lowered for: a device, the gradients' slices, and the segments of the flat vectors: of those over
    all that is trained, and of the base that adapters stand on."""

    def __init__(
        self,
        device: Device,
        slices: int = 1,
        segments: "list[Segment] | None" = None,
        base_segments: "list[Segment] | None" = None,
    ) -> None:
        self.device = device
        self.slices = slices
        self.segments = segments
        self.base_segments = base_segments
        self.index = 0  # of the op in its program: scratch that its dispatches share is named after it


class Dispatch:
    """One run of the kernel `entry`, whose text is `files` one after the other, over a grid of workgroups.

    Its bindings 0, 1, … are what it reads, then what it writes (and may read), each with the name it has in the text;
    a tensor that is absent is bound to a place that nobody looks at. `constants` are the text's overrides by name.
    """

    def __init__(
        self,
        files: list[str],
        entry: str,
        reads: "list[Binding]",
        writes: "list[Binding]",
        constants: "dict[str, Constant]",
        grid: tuple[int, int, int],
    ) -> None:
        self.files = files
        self.entry = entry
        self.reads = reads
        self.writes = writes
        self.constants = constants
        self.grid = grid
        self.ops: list[int] = []  # the numbers of the program's ops that it is of; they have equal shares in its time


def bound(op: "Op", names: str) -> "list[Binding]":
    """Tensors of an op, under the names they have there."""
    return [(name, op.tensor(name)) for name in names.split()]


def flag(tensor: "Tensor | None") -> int:
    """Whether a tensor is there, as an override."""
    return 0 if tensor is None else 1


def dims(op: "Op", names: str) -> "dict[str, Constant]":
    """The op's sizes, and its flags by their names in capitals."""
    return {name.upper(): op.dim(name) for name in names.split()}


def strides(op: "Op", names: str) -> "dict[str, Constant]":
    """Of tensors whose rows may lie apart: their pitch, and where in the binding the first begins."""
    constants: dict[str, Constant] = {}
    for name in names.split():
        constants[name.upper() + "_PITCH"] = op.pitch(name)
        constants[name.upper() + "_OFFSET"] = op.offset(name)
    return constants


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


# --- texts -----------------------------------------------------------------------------------------------


def reduce_files(device: Device) -> list[str]:
    """The texts of reductions over a row's lanes."""
    return ["lanes_subgroups.wgsl" if device.subgroups else "lanes_plain.wgsl", "reduce.wgsl"]


def width(*sizes: int) -> int:
    """How many numbers a kernel takes at a time."""
    for size in sizes:
        if size % 4:
            return 1
    return 4


def texts(kernel: str, width: int, device: "Device | None" = None, sliced: bool = False) -> list[str]:
    """A kernel's files; with a device, the reductions that suit it."""
    files = []
    if device is not None:
        files += reduce_files(device)
    files.append(f"width_{width}.wgsl")
    if sliced:
        files.append("slices.wgsl")
    return files + [kernel + ".wgsl"]


# --- grids -----------------------------------------------------------------------------------------------


def line_grid(groups: int, device: Device) -> tuple[int, int, int]:
    """A grid of at least so many workgroups; kernels number them by x + y * num_workgroups.x and pass on a surplus."""
    if groups <= device.max_groups:
        return (groups, 1, 1)
    rows = ceil_div(groups, device.max_groups)
    return (ceil_div(groups, rows), rows, 1)


def row_lanes(rows: int, words: int, device: Device) -> int:
    """How many invocations share a row: more where rows are too few to keep the device busy, while each has work."""
    lanes = ROW_LANES
    while lanes < GROUP and 2 * lanes <= words and rows * lanes < device.processors * GROUP:
        lanes *= 2
    return lanes


def row_grid(rows: int, lanes: int, device: Device) -> tuple[int, int, int]:
    return line_grid(ceil_div(rows * lanes, GROUP), device)


def flat_grid(count: int, device: Device) -> tuple[int, int, int]:
    """An invocation for each of `count` words."""
    return line_grid(ceil_div(count, GROUP), device)


def over_rows(
    op: "Op",
    target: Target,
    entry: str,
    reads: str,
    writes: str,
    constants: "dict[str, Constant]",
    axis: str = "C",
    sliced: bool = False,
) -> Dispatch:
    """Of a kernel whose N rows of `axis` numbers are shared out among invocations, some per row."""
    rows, wide = op.dim("N"), width(op.dim(axis))
    lanes = row_lanes(rows, op.dim(axis) // wide, target.device)
    constants = dict(dims(op, "N " + axis), LANES=lanes, **constants)
    files = texts(op.kernel, wide, target.device, sliced)
    return Dispatch(files, entry, bound(op, reads), bound(op, writes), constants, row_grid(rows, lanes, target.device))
