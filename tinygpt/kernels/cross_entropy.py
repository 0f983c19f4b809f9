"""The loss: how surprised the model is by each next byte, and the gradient it starts from."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.attention import log_sum_exp


def cross_entropy(
    *,
    logits: Floats,
    targets: Ints,
    losses: Floats,
    dlogits: Floats | None,
    N: int,
    V: int,
    count: int,
    smoothing: float = 0,
) -> None:
    """logits [N,V], targets [N] -> losses [N], and dlogits [N,V] of sum(losses) / count.

    loss = log sum_v exp(z_v) - sum_v goal_v z_v, where goal adds up to 1: it is onehot(target), or of that the share
    1 - smoothing and the rest evenly over all v. The first term's gradient is softmax(z), the second's is the goal:
    dz = softmax(z) - goal, over `count`, the rows whose mean the loss is.
    """
    rows = np.arange(N)
    sums = log_sum_exp(logits)
    losses[...] = sums - logits[rows, targets]
    if smoothing:
        losses += smoothing * (logits[rows, targets] - logits.mean(axis=1))
    if dlogits is not None:
        gradient = np.exp(logits - sums[:, None]) - smoothing / V
        gradient[rows, targets] -= 1 - smoothing
        dlogits[...] = gradient / count


def mean_loss(*, losses: Floats, loss: Floats, N: int, accumulate: int = 0, count: int) -> None:
    """losses [N] -> loss [1]; `count` is N, or more where several batches make one step."""
    loss[...] = (loss if accumulate else 0) + losses.sum() / count
