"""A gated recurrence along a window: what a row keeps of the rows before it, and what it takes in."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flag, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding, Constant


def scan(op: Op, target: Target) -> list[Dispatch]:
    return along_windows(op, bound(op, "gate value"), bound(op, "y"), dims(op, "B T C"), target)


def scan_backward(op: Op, target: Target) -> list[Dispatch]:
    reads = bound(op, "gate value") + [("left", op.tensor("y"))] + bound(op, "dy")
    return along_windows(op, reads, bound(op, "dgate dvalue"), dims(op, "B T C"), target)


def scan_one(op: Op, target: Target) -> list[Dispatch]:
    constants: dict[str, Constant] = {"B": op.dim("R"), "C": op.dim("C")}
    return along_windows(op, bound(op, "gate value state"), [("next", op.tensor("y"))], constants, target)


def along_windows(
    op: Op, reads: "list[Binding]", writes: "list[Binding]", constants: "dict[str, Constant]", target: Target
) -> list[Dispatch]:
    """An invocation goes along a window with a word of its columns."""
    C = op.dim("C")
    wide = width(C)
    files = texts("scan", wide)
    files.insert(len(files) - 1, "sigmoid.wgsl")
    windows = op.dim("R") if op.kernel == "scan_one" else op.dim("B")
    return [Dispatch(files, op.kernel, reads, writes, constants, flat_grid(windows * C // wide, target.device))]


def scan_keep(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N C")
    constants["HAS_ROW"] = flag(op.tensor("row"))
    reads, grid = bound(op, "x position row"), flat_grid(op.dim("N") * op.dim("C"), target.device)
    return [Dispatch(["scan_keep.wgsl"], "scan_keep", reads, bound(op, "state"), constants, grid)]


# y[b, t] = (1 - z) y[b, t - 1] + z value[b, t] with z = sigmoid(gate[b, t]) and y[b, -1] = 0
declare("scan", "gate value -> y | B T C", "gate=B*T,C value=B*T,C y=B*T,C", scan)
declare(
    "scan_backward",
    "dy gate value y -> dgate dvalue | B T C",
    "dy=B*T,C gate=B*T,C value=B*T,C y=B*T,C dgate=B*T,C dvalue=B*T,C",
    scan_backward,
)
# Generation, the newest row of each of R texts: `state` stands for y[t - 1].
declare("scan_one", "gate value state -> y | C R=1", "gate=R,C value=R,C state=R,C y=R,C", scan_one)
# state = x; or for the text row[0] alone, whose newest row is at its position: state[row[0]] = x[position[row[0]]]
declare("scan_keep", "x position? row? -> state+ | N C R=1", "x=N,C position:i32=R row:i32=1 state=R,C", scan_keep)
