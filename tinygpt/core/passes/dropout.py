"""While a model learns, numbers are dropped after its embedding and at the end of every branch.

    x = embed(tokens)                      x = embed(tokens);  x.dropped = dropout(x), which all others read
    o = linear(y, o_proj)                  o = linear(y, o_proj);  o.dropped = dropout(o), which all others read
    dy, dW = linear_backward(do, o_proj)   do.dropped = dropout(do);  dy, dW = linear_backward(do.dropped, o_proj)
    dtable = embed_backward(dx)            dx.dropped = dropout(dx);  dtable = embed_backward(dx.dropped)

Where n-gram tables add to the embedding, x is the sum of both. What is dropped follows from the step and the site, so
a dropout is its own gradient.
"""

from tinygpt.core.config import TrainConfig
from tinygpt.core.models.parameters import NGRAM_MAP
from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.passes.rewrite import map_of, rewritten, tensor_of, with_tensors

EMBEDDING = 0  # the first site, where an op is of no map
EMBEDDED = "x"  # what leaves the embedding
ENDS = {"o_proj": 1, "fc_out": 2}  # maps that end a branch; in block i the site is 2 i further


def dropout(program: Program, train: TrainConfig, counters: Tensor) -> Program:
    left: dict[str, Tensor] = {}  # of what is dropped, by its name; of a branch's gradient, by the branch's last map

    def drop(made: Program, x: Tensor, site: int, name: str) -> Tensor:
        N, C = x.shape
        y = made.tensor(name, (N, C))
        sizes = {"N": N, "C": C, "seed": train.seed, "site": site}
        made.call("dropout", x=x, counters=counters, y=y, rate=train.dropout, **sizes)
        return y

    def change(made: Program, op: Op) -> None:
        which = map_of(op)
        site = site_of(which)
        into = embedding_gradient(op, which)
        if into is not None and into.name not in left:
            left[into.name] = drop(made, into, EMBEDDING, "dx.dropped")
        for name in op.declared.inputs:
            tensor = op.tensor(name)
            if tensor is not None and tensor.name in left:
                op = with_tensors(op, **{name: left[tensor.name]})
        if site and op.kernel == "linear_backward_input":
            left[which] = drop(made, tensor_of(op, "dy"), site, which + ".dropped")
            op = with_tensors(op, dy=left[which])
        elif site and op.kernel == "linear_backward_weight":
            op = with_tensors(op, dy=left[which])
        made.ops.append(op)
        made_of = op.writes()[0]
        if made_of.name == EMBEDDED or (site and op.kernel == "linear"):
            left[made_of.name] = drop(made, made_of, site, made_of.name + ".dropped")

    return rewritten(program, change)


def embedding_gradient(op: Op, which: str) -> "Tensor | None":
    """The gradient of the embedding, if the op takes it to the tables."""
    if op.kernel == "embed_backward":
        return op.tensor("dx")
    return op.tensor("dy") if which == NGRAM_MAP and op.kernel != "linear" else None


def site_of(which: str) -> int:
    """Of a map that ends a branch; of any other, 0."""
    parts = which.split(".")  # blocks, i, attn, o_proj
    return 2 * int(parts[1]) + ENDS[parts[-1]] if parts[-1] in ENDS else 0
