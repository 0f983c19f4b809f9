"""Linear maps of one input whose weights are side by side in memory are one product: q, k and v, or the two inputs of a
gated MLP (core/models/layout.py).

    q = linear(a, Wq);  k = linear(a, Wk);  v = linear(a, Wv)    qkv = linear(a, Wqkv)
    da = linear_backward_input(dq, Wq);                          da = linear_backward_input(dqkv, Wqkv)
      da += linear_backward_input(dk, Wk);  ...
    dWq = linear_backward_weight(dq, a);  dWk = ...              dWqkv = linear_backward_weight(dqkv, a)

q, k and v are columns of one tensor, qkv. If the pass is left out, the layout gives each map a place of its own.
"""

from tinygpt.core.models.layout import Layout
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.op import Op, Program, Tensor, op_of
from tinygpt.core.passes.rewrite import WEIGHT, map_of, rewritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    Arguments = dict[str, Tensor | int | float | None]

# What an op of a linear map reads or writes of the map itself, and which of its tensors are columns of a wider one.
BIAS = ".bias"
ENDINGS = {"weight": WEIGHT, "dweight": WEIGHT, "bias": BIAS, "dbias": BIAS}
COLUMNS = {"linear": "y", "linear_backward_input": "dy", "linear_backward_weight": "dy"}


def merge(program: Program, memory: Memory, learns: bool) -> Program:
    weights = memory.live_weight if learns else memory.weight

    def change(made: Program, op: Op) -> None:
        which = map_of(op)
        layout = layout_of(memory, which)
        if layout is None:
            made.ops.append(op)
            return
        merged = layout.holder[which + WEIGHT]
        if layout.members[merged][0].name == which + WEIGHT:
            made.ops.append(merged_op(op, merged[: -len(WEIGHT)], weights, memory.grad))

    return rewritten(program, change)


def layout_of(memory: Memory, which: str) -> "Layout | None":
    """Where the weights of a map are, if they share a matrix with another map's."""
    for layout in (memory.layout, memory.base_layout):
        if layout is not None and layout.holder.get(which + WEIGHT, which + WEIGHT) != which + WEIGHT:
            return layout
    return None


def merged_op(first: Op, merged: str, weights: "dict[str, Tensor]", grads: "dict[str, Tensor]") -> Op:
    """The op of all maps, made of the first map's. The columns of its output are a tensor's first ones."""
    arguments = first.arguments()
    for name in ENDINGS:
        if name in arguments:
            arguments[name] = (grads if name in ("dweight", "dbias") else weights)[merged + ENDINGS[name]]
    columns = first.tensor(COLUMNS[first.kernel])
    assert columns is not None and columns.start == 0
    arguments[COLUMNS[first.kernel]] = columns.root()
    arguments["O"] = weights[merged + WEIGHT].shape[0]
    return op_of(first.kernel, arguments)
