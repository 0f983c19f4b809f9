"""Dropout: numbers set to 0 at random, the others grown to make up for it."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flag, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare, shared
from tinygpt.core.rng import DROPOUT

shared("DROPOUT", DROPOUT)


def dropout(op: Op, target: Target) -> list[Dispatch]:
    size = op.dim("N") * op.dim("C")
    wide, rate = width(size), op.scalar("rate")
    constants = dims(op, "N C seed site")
    constants["PURPOSE"] = DROPOUT
    constants["THRESHOLD"] = int(rate * 4294967296.0)
    constants["SCALE"] = 1 / (1 - rate)
    constants["HAS_RESIDUAL"] = flag(op.tensor("residual"))
    return [
        Dispatch(
            ["philox.wgsl"] + texts("dropout", wide),
            "dropout",
            bound(op, "x counters residual"),
            bound(op, "y"),
            constants,
            flat_grid(size // wide, target.device),
        )
    ]


# y = x / (1 - rate) where a word drawn for it is at least rate * 2^32, else 0 (+ residual). Element i has word i mod 4
# of the draw at (i / 4, step, site, micro), with step and micro the first two of `counters`: every place of a model
# where numbers are dropped is a `site`. The gradient is dy, dropped in the same places.
declare(
    "dropout",
    "x counters residual? -> y | N C seed site | rate",
    "x=N,C counters:i32=4 residual=N,C y=N,C",
    dropout,
)
