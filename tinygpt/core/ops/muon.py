"""Muon: momentum, made orthogonal by Newton and Schulz, for the matrices of all blocks in one call."""

from tinygpt.core.ops.gpu import ceil_div
from tinygpt.core.ops.linear import WIDEST_PANEL
from tinygpt.core.ops.muon_gpu import longer, muon
from tinygpt.core.ops.muon_matrices import of_op
from tinygpt.core.ops.op import Op, declare, shared

STRIDE_PADDING = shared("STRIDE_PADDING", 16)  # floats between the rows of a product: else they crowd a few cache sets
DESK_FLOATS = 16 * 1024 * 1024  # of all desks together
MAX_DESKS = 64


def desk_floats(C: int, F: int) -> int:
    """What a thread has on its desk: a matrix, what becomes of it, and four squares, rows padded to whole panels."""
    return (2 * F + 4 * C) * (ceil_div(C, WIDEST_PANEL) * WIDEST_PANEL + STRIDE_PADDING)


def desks(matrices: int, C: int, F: int) -> int:
    """How many matrices may be in work at a time. Where threads are more, all of them share each matrix."""
    return max(1, min(MAX_DESKS, matrices, DESK_FLOATS // desk_floats(C, F)))


def flops(op: Op) -> int:
    """Products that are symmetric count their half."""
    C, steps, every = op.dim("C"), op.dim("steps"), op.dim("every")
    total = 0
    for matrix in of_op(op):
        K = longer(matrix)
        for i in range(steps):
            last = i + 1 == steps or (i + 1) % every == 0
            total += C * C * K if i % every == 0 else C * C * C  # A = XᵀX, or Q = PQ
            total += C * C * C  # P
            total += 2 * C * C * K if last else 2 * C * C * C  # X = XQ, or A = PAP
    return total


# Of each matrix: m = momentum m + (1 - momentum) g, with g the clipped gradient;  u = (1 - momentum) g + momentum m;
# X = u / |u|, then `steps` times X = (a + b A + c A^2) X with A = X X^T and that iteration's coefficients;
# weights = weights (1 - decay) - lr sqrt(max(1, outputs / inputs)) X.
# A row of rates has lr, decay = lr * weight_decay and the coefficients of each iteration behind AdamW's.
# Of a matrix [outputs, inputs] the lesser is C, but for k and v, which have W outputs and C inputs; W divides C.
# From A alone follow the As of at most `every` iterations at a time, and what they make of X in the end.
declare(
    "muon",
    "grads norm rates counters -> weights+ m+ "
    "| P rows columns layers stride C W F gates o_at in_at out_at steps every desks | momentum",
    "grads=P norm=2 rates=rows,columns counters:i32=4 weights=P m=P",
    muon,
    flops=flops,
    scratch=lambda op: op.dim("desks") * desk_floats(op.dim("C"), op.dim("F")),
)
