"""What an op costs: floating-point operations and bytes touched, from its dims alone."""

from tinygpt.core.ops import Op, Program


def flops(op: Op) -> int:
    """Multiplications and additions of the matmuls (causal ones count their lower half); the rest is small change."""
    if op.kernel.startswith("linear"):
        return 2 * op.dim("N") * op.dim("O") * op.dim("I")
    if op.kernel in ("attention", "attention_backward"):
        pairs = op.dim("T") * (op.dim("T") + 1) // 2
        matmuls = 2 if op.kernel == "attention" else 5  # S, PV; again S, then dP, dV, dQ, dK
        return 2 * matmuls * op.dim("B") * op.dim("H") * op.dim("D") * pairs
    if op.kernel == "attention_one":
        return 4 * op.dim("T") * op.dim("H") * op.dim("D")
    return 0


def bytes_touched(op: Op) -> int:
    """Every input read once and every output written once."""
    return 4 * (sum([tensor.size for tensor in op.reads()]) + sum([tensor.size for tensor in op.writes()]))


def program_flops(program: Program) -> int:
    return sum([flops(op) for op in program.ops])
