"""What passes are made with: a program is read op by op, and another one written."""

from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.optimizers import LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[Program, Op], None]

WEIGHT = ".weight"
MAPS = ("linear", "linear_backward_input", "linear_backward_weight")


def rewritten(program: Program, change: "Change") -> Program:
    """The program that `change` makes of this one: it is given the new program and each op of the old one in turn."""
    made = Program(program.mode)
    made.tensors = program.tensors
    for index in range(len(program.ops)):
        if index == program.committed:
            made.commit()
        change(made, program.ops[index])
    if program.committed == len(program.ops):
        made.commit()
    return made


def with_tensors(op: Op, **others: "Tensor | None") -> Op:
    """The same call, but for some of its tensors."""
    tensors = list(op.tensors)
    for name in others:
        tensors[op.declared.tensors.index(name)] = others[name]
    return Op(op.kernel, tensors, op.dims, op.scalars)


def with_dim(op: Op, name: str, value: int) -> Op:
    """The same call, but for one of its dims."""
    dims = list(op.dims)
    dims[op.declared.dims.index(name)] = value
    return Op(op.kernel, op.tensors, dims, op.scalars)


def tensor_of(op: Op, name: str) -> Tensor:
    """One that the call cannot be without."""
    tensor = op.tensor(name)
    assert tensor is not None
    return tensor


def map_of(op: Op) -> str:
    """The linear map that an op of MAPS computes, as "blocks.0.attn.q_proj"; "" for any other op, an adapter's too."""
    if op.kernel not in MAPS:
        return ""
    is_gradient = op.kernel == "linear_backward_weight"
    name = tensor_of(op, "dweight").name[1:] if is_gradient else tensor_of(op, "weight").name
    if not name.endswith(WEIGHT):
        return ""
    return name[len(LIVE) + 1 : -len(WEIGHT)] if name.startswith(LIVE + ".") else name[: -len(WEIGHT)]
