"""N-gram tables: the last n bytes pick a row of a table, and what the model learns there is added to the embedding.

A row is found by the bytes themselves where the table has a row for each of their combinations, else by a hash of them.
A batch touches few rows, so neither their gradient nor their update is ever made for whole tables.
"""

from tinygpt.core.config import MOST_NGRAM_BYTES
from tinygpt.core.ops.gpu import GROUP, Dispatch, Target, bound, ceil_div, dims, flag, flat_grid
from tinygpt.core.ops.op import Op, declare, shared

MOST_BYTES = shared("NGRAM_BYTES", MOST_NGRAM_BYTES)  # `recent` has as many of each text
WORD = 4  # floats that an invocation takes


def tables_of(orders: int) -> list[int]:
    """The n of each table. Bit n of `orders` is set where there is a table for the last n bytes."""
    return [n for n in range(1, MOST_BYTES + 1) if orders >> n & 1]


def ngram_embed(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N T G E W orders")
    constants["HAS_RECENT"] = 0
    reads = bound(op, "tokens table") + [("position", None), ("recent", None)]
    grid = flat_grid(op.dim("N") * op.dim("G") * op.dim("W") // WORD, target.device)
    return [Dispatch(["hash.wgsl", "ngrams.wgsl"], "ngram_embed", reads, bound(op, "y rows"), constants, grid)]


def ngram_embed_one(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "G E W orders")
    constants.update({"N": op.dim("R"), "T": 1, "HAS_RECENT": 1})
    reads = bound(op, "tokens table position recent")
    grid = flat_grid(op.dim("R") * op.dim("G") * op.dim("W") // WORD, target.device)
    return [
        Dispatch(["hash.wgsl", "ngrams.wgsl"], "ngram_embed", reads, bound(op, "y") + [("rows", None)], constants, grid)
    ]


def ngram_keep(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N R")
    constants["HAS_ROW"] = flag(op.tensor("row"))
    reads, writes = bound(op, "tokens position row"), bound(op, "recent")
    return [
        Dispatch(["ngram_keep.wgsl"], "ngram_keep", reads, writes, constants, flat_grid(op.dim("R"), target.device))
    ]


def ngram_collect(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N G W")
    reads, writes = bound(op, "rows dy counters"), bound(op, "all_rows all_dy")
    grid = flat_grid(op.dim("N") * op.dim("G") * op.dim("W"), target.device)
    return [Dispatch(["ngram_collect.wgsl"], "ngram_collect", reads, writes, constants, grid)]


def adagrad_rows(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N G W ring")
    constants["EPS"] = op.scalar("eps")
    entries = GROUP // (op.dim("W") // WORD)  # of a workgroup
    grid = (ceil_div(op.dim("N"), entries), op.dim("G"), 1)
    reads, writes = bound(op, "rows dy rates counters"), bound(op, "table squares")
    return [Dispatch(["adagrad_rows.wgsl"], "adagrad_rows", reads, writes, constants, grid)]


# rows[n,g] = E g + the row that the last bytes up to token n pick in table g; -1 where its window has fewer of them.
# y[n,g] = table[rows[n,g]], or zeros.
declare(
    "ngram_embed",
    "tokens table -> y rows | N T G E W orders",
    "tokens:i32=N table=G*E,W y=N,G*W rows:i32=N,G",
    ngram_embed,
)
# Generation, the newest token of each of R texts, at place position[r]; recent[r] has the bytes before, the last first.
declare(
    "ngram_embed_one",
    "tokens position recent table -> y | G E W orders R=1",
    f"tokens:i32=R position:i32=R recent:i32=R,{MOST_BYTES} table=G*E,W y=R,G*W",
    ngram_embed_one,
)
# recent[r] takes in tokens[r], of all texts; or of text number `row`, the last of tokens up to its position.
declare(
    "ngram_keep",
    "tokens position row? -> recent+ | N R",
    f"tokens:i32=N position:i32=R row:i32=1 recent:i32=R,{MOST_BYTES}",
    ngram_keep,
)
# Of a step of several batches: what batch number counters[1] has, in its place among them all.
declare(
    "ngram_collect",
    "rows dy counters -> all_rows+ all_dy+ | N G W parts",
    "rows:i32=N,G dy=N,G*W counters:i32=4 all_rows:i32=parts*N,G all_dy=parts*N,G*W",
    ngram_collect,
)
# Of each row r of the tables that `rows` names: d = the sum of dy[n,g] over rows[n,g] = r, in the order of n;
# squares[r] += mean(d^2);  table[r] -= lr d / (sqrt(squares[r]) + eps), with lr = rates[counters[0] mod ring].
declare(
    "adagrad_rows",
    "rows dy rates counters -> table+ squares+ | N G E W ring | eps",
    "rows:i32=N,G dy=N,G*W rates=ring counters:i32=4 table=G*E,W squares=G*E",
    adagrad_rows,
    scratch=lambda op: op.dim("G") * (op.dim("E") + op.dim("N") * op.dim("W")),
)
