"""The matrices that Muon steps: those of all blocks, where they lie in their stretch of the flat vectors."""

from collections import namedtuple

from tinygpt.core.ops.op import Op, shared

# A matrix [outputs, inputs] of the stretch, from float `start` on.
Matrix = namedtuple("Matrix", ("start", "outputs", "inputs"))

MATRIX_RATES = shared("MATRIX_RATES", 3)  # where the matrices' rates begin in a row of rates, behind AdamW's
COEFFICIENTS = shared("MUON_COEFFICIENTS", 5)  # and where the iterations' coefficients do, three for each


def matrices_of(
    layers: int, stride: int, C: int, W: int, F: int, gates: int, o_at: int, in_at: int, out_at: int
) -> list[Matrix]:
    """q, k, v, o, the gate and fc_in, fc_out, block by block: blocks are `stride` floats apart."""
    block = [Matrix(0, C, C), Matrix(C * C, W, C), Matrix(C * C + W * C, W, C), Matrix(o_at, C, C)]
    block += [Matrix(in_at + i * F * C, F, C) for i in range(gates)] + [Matrix(out_at, C, F)]
    return [Matrix(i * stride + m.start, m.outputs, m.inputs) for i in range(layers) for m in block]


def of_op(op: Op) -> list[Matrix]:
    return matrices_of(
        *[op.dim(name) for name in ("layers", "stride", "C", "W", "F", "gates", "o_at", "in_at", "out_at")]
    )
