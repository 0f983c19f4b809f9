"""N-gram tables beside the byte embedding: what the last n bytes are known to be followed by, handed to the model.

    y[n] = the rows that the last bytes up to token n pick, one of each table, side by side     [N, G W]
    x = embed(tokens) + y ngram_proj^T                                                           [N, C]

The tables are no parameters like others. A batch touches a few of their rows, so they have no dense gradient: the
backward pass leaves dy, and the optimizer's step sums it up by row. They start as zeros, and rows that never occurred
stay so.
"""

from collections import namedtuple

from tinygpt.core.models.layers import ModelProgram
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.parameters import NGRAM_MAP
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.ops.record import RING

# y: what was looked up; rows: which rows of the tables it is, [N, G]
Picked = namedtuple("Picked", ("y", "rows"))
ADAGRAD_EPS = 1e-10


def embed_ngrams(p: ModelProgram, tokens: Tensor, x_bytes: Tensor) -> "tuple[Tensor, Picked]":
    """x, the embedding with what the tables add to it, for whole windows."""
    memory, sizes = p.memory, p.memory.table_sizes
    y = p.rows("ngrams", sizes["G"] * sizes["W"])
    rows = memory.picked if keeps_picked(p) else p.tensor("ngrams.rows", (p.N, sizes["G"]), "temp", "i32")
    p.call("ngram_embed", tokens=tokens, table=memory.tables, y=y, rows=rows, N=p.N, T=p.T, **sizes)
    return add_to_embedding(p, y, x_bytes), Picked(y, rows)


def embed_newest_ngrams(p: ModelProgram, tokens: Tensor, x_bytes: Tensor) -> Tensor:
    """The same for the newest token of every text."""
    memory, sizes = p.memory, p.memory.table_sizes
    y = p.rows("ngrams", sizes["G"] * sizes["W"])
    p.call(
        "ngram_embed_one", tokens=tokens, position=memory.position, recent=memory.state["recent"], table=memory.tables,
        y=y, R=p.N, **sizes,
    )  # fmt: skip
    return add_to_embedding(p, y, x_bytes)


def add_to_embedding(p: ModelProgram, y: Tensor, x_bytes: Tensor) -> Tensor:
    return p.add(p.linear(y, NGRAM_MAP, p.rows("x_ngrams", p.C)), x_bytes, "x")


def keeps_picked(p: ModelProgram) -> bool:
    """Whether a step is one batch, so that what the optimizer needs goes where it looks for it."""
    return p.learns and p.memory.picked is not None and p.memory.picked.shape[0] == p.N


def backward_ngrams(p: ModelProgram, dx: Tensor, picked: Picked) -> None:
    """dy = dx W; the tables' gradient is its sum over the places that picked a row."""
    memory, sizes = p.memory, p.memory.table_sizes
    dy = memory.drows if keeps_picked(p) else None
    dy = dy or p.rows("dngrams", sizes["G"] * sizes["W"])
    p.backward_linear(dx, picked.y, NGRAM_MAP, dy)
    if memory.picked is not None and not keeps_picked(p):
        parts = memory.picked.shape[0] // p.N
        p.call(
            "ngram_collect", rows=picked.rows, dy=dy, counters=memory.counters, all_rows=memory.picked,
            all_dy=memory.drows, N=p.N, G=sizes["G"], W=sizes["W"], parts=parts,
        )  # fmt: skip


def update_tables(p: Program, memory: Memory) -> None:
    """A step of the rows that the step's batches picked, by AdaGrad."""
    assert memory.picked is not None
    sizes = {name: memory.table_sizes[name] for name in ("G", "E", "W")}
    p.call(
        "adagrad_rows", rows=memory.picked, dy=memory.drows, rates=memory.ngram_rates, counters=memory.counters,
        table=memory.tables, squares=memory.squares, N=memory.picked.shape[0], ring=RING, eps=ADAGRAD_EPS, **sizes,
    )  # fmt: skip


def keep_recent(p: Program, memory: Memory, tokens: Tensor, row: Tensor | None) -> None:
    """The last bytes of text number `row`, or of all, for the byte that comes next."""
    p.call(
        "ngram_keep", tokens=tokens, position=memory.position, row=row, recent=memory.state["recent"],
        N=tokens.shape[0], R=memory.texts,
    )  # fmt: skip
