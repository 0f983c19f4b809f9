"""A program is checked in Python before any engine sees it: a bad one fails here and not in a kernel."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import ALIGNMENT, Op, Program, Tensor, elements

MAX_DIM = 2**31 - 1
COUNTS = ("count", "rows", "room", "bytes")
ANY_WORD = ("seed", "std_high", "std_low")


def fail(program: Program, index: int, what: str) -> None:
    raise TinyGPTError(f"the {program.mode} program is wrong at op {index} ({program.ops[index]!r}): {what}")


def verify(program: Program) -> None:
    """Dims are positive and fit 32 bits, sizes agree with dims, views are such as their kernels take, nothing temporary
    is read before it is written, and a model's state is written only by what a program commits to."""
    written: dict[str, int] = {}  # by temporary or view of it, how many of its floats
    for index in range(len(program.ops)):
        op = program.ops[index]
        for place in range(len(op.dims)):
            dim, name = op.dims[place], op.declared.dims[place]
            if not 1 <= dim <= MAX_DIM and not is_other(dim, name):
                fail(program, index, f"{name} is {dim}")
        for place in range(len(op.tensors)):
            tensor, name = op.tensors[place], op.declared.tensors[place]
            if tensor is None:
                continue
            if name in op.declared.axes:
                shape = op.shape(name)
                if tensor.shape != shape and elements(tensor.shape) != elements(shape):
                    fail(program, index, f"{name} is {tensor!r}, not {list(shape)}")
            if tensor.inside is not None:
                check_view(program, index, name, tensor, tensor.inside)
        for tensor in op.reads():
            if tensor.kind == "temp" and not is_written(tensor, written):
                fail(program, index, f"{tensor.name} is read before it is written")
        for tensor in op.writes():
            root = tensor.root()
            if tensor.kind == "temp":
                if tensor is not root and tensor.name not in written:  # columns may be written one after the other
                    written[tensor.name] = tensor.size
                    written[root.name] = written.get(root.name, 0) + tensor.size
                elif tensor is root:
                    written[root.name] = root.size
            elif tensor.kind in ("input", "corpus", "frozen", "compact"):
                fail(program, index, f"{tensor.name} is the host's to write")
            elif tensor.kind in ("weight", "slot", "table") and index < program.committed:
                fail(program, index, f"{tensor.name} is written while the run can still be abandoned")
        aliased(program, index, op)


def is_written(tensor: Tensor, written: "dict[str, int]") -> bool:
    """Whether all of it was written: as such, or as part of what it is a view of."""
    root = tensor.root()
    return written.get(root.name, 0) >= root.size or written.get(tensor.name, 0) >= tensor.size


def is_other(dim: int, name: str) -> bool:
    """Whether this dim may be 0, or any word."""
    if name in ANY_WORD:
        return 0 <= dim < 2**32
    return dim == 0 and not name.isupper() and name not in COUNTS


def check_view(program: Program, index: int, name: str, tensor: Tensor, root: Tensor) -> None:
    """It lies inside of what it is of, and as its kernel can take it."""
    op, whole = program.ops[index], tensor.span() == tensor.size
    if tensor.start < 0 or tensor.start + tensor.span() > root.size:
        fail(program, index, f"{name} is {tensor!r}, which does not lie inside of {root!r}")
    if tensor.pitch < tensor.shape[-1]:
        fail(program, index, f"the rows of {name}, {tensor.shape[-1]} floats, lie only {tensor.pitch} apart")
    if name not in op.declared.apart:
        if not whole:
            fail(program, index, f"{name} is {tensor!r}, whose rows lie apart; {op.kernel} takes it in one piece only")
        if tensor.offset():
            where = f"starts {tensor.start} floats into {root.name}"
            fail(program, index, f"{name} is {tensor!r}, which {where}, and not at a multiple of {ALIGNMENT}")
    elif not whole and tensor.shape != op.shape(name):
        fail(program, index, f"{name} is {tensor!r}, whose rows lie apart, not {list(op.shape(name))}")


def aliased(program: Program, index: int, op: Op) -> None:
    """No output may be another argument of its op as well; updated ones stand in the list once."""
    arguments = [tensor for tensor in op.tensors if tensor is not None]
    for output in op.writes():
        for other in arguments:
            if other is not output and overlap(other, output):
                fail(program, index, f"{output.name} and {other.name} share memory")
        if len([tensor for tensor in arguments if tensor is output]) > 1:
            fail(program, index, f"{output.name} is given twice")


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether they share a float. Of views with different pitches all that lies between their rows counts, too."""
    if a.root() is not b.root() or a.start >= b.start + b.span() or b.start >= a.start + a.span():
        return False
    if a.pitch != b.pitch:
        return True
    # b's first row begins in a's row number `row`, counted from a's first, or in the gap behind that, at `column`.
    row, column = (b.start - a.start) // a.pitch, (b.start - a.start) % a.pitch
    return (column < a.shape[-1] and rows_meet(a, b, row)) or (
        column + b.shape[-1] > a.pitch and rows_meet(a, b, row + 1)
    )


def rows_meet(a: Tensor, b: Tensor, row: int) -> bool:
    """Whether a has any of the rows that are b's if its first is number `row` of a."""
    return row < elements(a.shape[:-1]) and row + elements(b.shape[:-1]) > 0
