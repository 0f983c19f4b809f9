"""What a GPU engine is made of: a device's limits, and dispatches, each one run of a WGSL kernel over a grid."""

from tinygpt.core.ops import Op, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    Constant = int | float
    Binding = tuple[str, "Tensor | None"]

# A gradient is kept in `slices`: slice s holds what the s-th share of a batch's rows adds to it, so that kernels
# which sum over rows can be spread over the whole device. The slices of a tensor are interleaved by lines of 64 floats:
# element i of slice s lies at (i / 64 * slices + s) * 64 + i % 64. What reads a gradient sums its slices.
SLICE_LINE = 64


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


def bound(op: Op, names: str) -> "list[Binding]":
    """Tensors of an op, under the names they have there."""
    return [(name, op.tensor(name)) for name in names.split()]


def flag(tensor: "Tensor | None") -> int:
    """Whether a tensor is there, as an override."""
    return 0 if tensor is None else 1


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


def line_grid(groups: int, device: Device) -> tuple[int, int, int]:
    """A grid of at least so many workgroups; kernels number them by x + y * num_workgroups.x and pass on a surplus."""
    if groups <= device.max_groups:
        return (groups, 1, 1)
    rows = ceil_div(groups, device.max_groups)
    return (ceil_div(groups, rows), rows, 1)


def reduce_files(device: Device) -> list[str]:
    """The texts of reductions over a row's lanes."""
    return ["lanes_subgroups.wgsl" if device.subgroups else "lanes_plain.wgsl", "reduce.wgsl"]
