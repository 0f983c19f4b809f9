"""Rotary positions: queries and keys turned by angles that grow with their place."""

import math

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flag, flat_grid, texts, width
from tinygpt.core.ops.op import Op, declare


def rotary_table(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "T D")
    constants["HAS_POSITION"] = flag(op.tensor("position"))
    ratio = int(frequency_ratio(op.dim("base"), op.dim("D")) * 2.0**64)
    constants["RATIO_HIGH"], constants["RATIO_LOW"] = ratio >> 32, ratio & 0xFFFFFFFF
    grid = flat_grid(op.dim("T") * op.dim("D") // 2, target.device)
    files = ["philox.wgsl", "rotary_table.wgsl"]
    return [Dispatch(files, "rotary_table", bound(op, "position"), bound(op, "angles"), constants, grid)]


def frequency_ratio(base: int, D: int) -> float:
    """base^(-2/D), of each pair's frequency to the one before: the exponent's binary digits one by one, for each a
    square root, which every machine rounds alike."""
    root, power, digits = float(base), 1.0, 2
    for _ in range(53):
        root = math.sqrt(root)
        digits *= 2
        if digits >= D:
            digits -= D
            power *= root
    return 1 / power


def rotary(op: Op, target: Target) -> list[Dispatch]:
    wide = width(op.dim("D") // 2)
    words = op.dim("N") * 3 * op.dim("H") * op.dim("D") // 2 // wide
    return [
        Dispatch(
            texts("rotary", wide),
            "rotary",
            bound(op, "qkv angles"),
            bound(op, "y"),
            dims(op, "N T H D inverse"),
            flat_grid(words, target.device),
        )
    ]


# angles[t] = cos of the D/2 angles position[t] base^(-2i/D), then their sines; without positions, of t itself
declare("rotary_table", "position? -> angles | T D base", "position:i32=T angles=T,D", rotary_table)
# Of every head, q and k: row n turns its pairs (i, i + D/2) by angles[n mod T]; v is copied.
# With `inverse` they turn back, which is the gradient too. D is even.
declare("rotary", "qkv angles -> y | N T H D inverse", "qkv=N,3*H*D angles=T,D y=N,3*H*D", rotary)
