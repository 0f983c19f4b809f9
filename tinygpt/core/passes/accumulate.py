"""A further batch of a step: its gradients and its loss are added to those of the batches before.

dW = linear_backward_weight(dy, x)     dW += linear_backward_weight(dy, x)
loss = mean_loss(losses)               loss += mean_loss(losses)
"""

from tinygpt.core.ops.op import Op, Program
from tinygpt.core.passes.rewrite import rewritten, with_dim


def accumulate(program: Program) -> Program:
    def change(made: Program, op: Op) -> None:
        is_summed = op.kernel == "mean_loss" or [tensor for tensor in op.writes() if tensor.kind == "grad"]
        made.ops.append(with_dim(op, "accumulate", 1) if is_summed else op)

    return rewritten(program, change)
