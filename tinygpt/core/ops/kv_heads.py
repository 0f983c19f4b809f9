"""Grouped queries: heads of keys and values that several heads of queries share."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare


def kv_heads(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "x", "y", op.shape("y"), target)


def kv_heads_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "dy", "dx", op.shape("dx"), target)


def dispatch(op: Op, reads: str, writes: str, made: "tuple[int, ...]", target: Target) -> list[Dispatch]:
    wide = width(op.dim("D"))
    grid = flat_grid(made[0] * made[1] // wide, target.device)
    constants = dims(op, "N H G D")
    return [Dispatch(texts("kv_heads", wide), op.kernel, bound(op, reads), bound(op, writes), constants, grid)]


# x has H heads of queries, then G of keys, then G of values, W = (H + 2G) D numbers per row; G divides H. In y each of
# the keys' and values' stands H / G times in a row, so that all are H.
declare("kv_heads", "x -> y | N H G D W", "x=N,W y=N,3*H*D", kv_heads)
declare("kv_heads_backward", "dy -> dx | N H G D W", "dy=N,3*H*D dx=N,W", kv_heads_backward)
