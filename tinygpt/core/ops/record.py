"""Keeping count: a step's loss and norm go to a ring that the host reads later, many at once."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims
from tinygpt.core.ops.op import Op, declare, shared

RING = shared("RING", 64)  # steps whose metrics are kept, and whose rates are known ahead


def record(op: Op, target: Target) -> list[Dispatch]:
    reads, writes = bound(op, "loss norm"), bound(op, "ring counters")
    return [Dispatch(["record.wgsl"], "record", reads, writes, dims(op, "rows"), (1, 1, 1))]


def count(op: Op, target: Target) -> list[Dispatch]:
    writes = [("counted", op.tensor("counters"))]
    return [Dispatch(["record.wgsl"], "count", [], writes, dims(op, "which"), (1, 1, 1))]


# A step is done: ring[step mod RING] = loss, norm; counters[0] is one more, counters[1] (batches of the step) is 0.
declare(
    "record",
    "loss norm -> ring+ counters+ | rows",
    "loss=1 norm=2 ring=rows,2 counters:i32=4",
    record,
)
# counters[which] is one more.
declare("count", "-> counters+ | which", "counters:i32=4", count)
