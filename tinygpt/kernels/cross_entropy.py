"""The loss: how surprised the model is by each next byte, and the gradient it starts from."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.attention import log_sum_exp


def cross_entropy(
    *, logits: Floats, targets: Ints, losses: Floats, dlogits: Floats | None, N: int, V: int, count: int
) -> None:
    """logits [N,V], targets [N] -> losses [N], and dlogits [N,V] of sum(losses) / count.

    loss = log sum_v exp(z_v) - z_target. The first term's gradient is softmax(z), the second's is 1 at the
    target: dz = softmax(z) - onehot(target), over `count`, the rows whose mean the loss is.
    """
    rows = np.arange(N)
    sums = log_sum_exp(logits)
    losses[...] = sums - logits[rows, targets]
    if dlogits is not None:
        gradient = np.exp(logits - sums[:, None])
        gradient[rows, targets] -= 1
        dlogits[...] = gradient / count


def mean_loss(*, losses: Floats, loss: Floats, N: int, accumulate: int, count: int) -> None:
    """losses [N] -> loss [1]; `count` is N, or more where several batches make one step."""
    loss[...] = (loss if accumulate else 0) + losses.sum() / count
