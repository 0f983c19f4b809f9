"""A program is checked in Python before any engine sees it: a bad one fails here and not in a kernel."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import Op, Program, Tensor, elements

MAX_DIM = 2**31 - 1
COUNTS = ("count", "rows", "room", "bytes")
ANY_WORD = ("seed", "std_high", "std_low")


def fail(program: Program, index: int, what: str) -> None:
    raise TinyGPTError(f"the {program.mode} program is wrong at op {index} ({program.ops[index]!r}): {what}")


def verify(program: Program) -> None:
    """Dims are positive and fit 32 bits, sizes agree with dims, nothing temporary is read before it is written, and a
    model's state is written only by what a program commits to."""
    written: dict[str, bool] = {}
    for index in range(len(program.ops)):
        op = program.ops[index]
        for name in op.declared.dims:
            low = 1 if name.isupper() or name in COUNTS else 0
            high = 2**32 - 1 if name in ANY_WORD else MAX_DIM
            if not low <= op.dim(name) <= high:
                fail(program, index, f"{name} is {op.dim(name)}")
        for name in op.declared.shapes:
            tensor = op.tensor(name)
            shape = op.shape(name)
            if tensor is not None and elements(tensor.shape) != elements(shape):
                fail(program, index, f"{name} is {tensor!r}, not {list(shape)}")
        for tensor in op.reads():
            if tensor.kind == "temp" and tensor.name not in written:
                fail(program, index, f"{tensor.name} is read before it is written")
        for tensor in op.writes():
            if tensor.kind == "temp":
                written[tensor.name] = True
            elif tensor.kind in ("input", "corpus"):
                fail(program, index, f"{tensor.name} is the host's to write")
            elif tensor.kind in ("weight", "slot") and index < program.committed:
                fail(program, index, f"{tensor.name} is written while the run can still be abandoned")
        aliased(program, index, op)


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
    return a.root() is b.root() and a.start < b.start + b.size and b.start < a.start + a.size
