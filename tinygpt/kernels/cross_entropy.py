"""The loss: how surprised the model is by each next byte, and the gradient it starts from."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints
from tinygpt.kernels.attention import log_sum_exp


def cross_entropy(
    *, logits: Floats, targets: Ints, losses: Floats, dlogits: Floats | None, N: int, V: int, scale: float
) -> None:
    """logits [N,V], targets [N] -> losses [N], and dlogits [N,V] of scale * sum(losses).

    loss = log sum_v exp(z_v) - z_target. The first term's gradient is softmax(z), the second's is 1 at the
    target: dz = softmax(z) - onehot(target), times `scale` (1/N where the loss is a mean over N rows).
    """
    rows = np.arange(N)
    sums = log_sum_exp(logits)
    losses[...] = sums - logits[rows, targets]
    if dlogits is not None:
        gradient = np.exp(logits - sums[:, None])
        gradient[rows, targets] -= 1
        dlogits[...] = gradient * scale


def mean_loss(*, losses: Floats, loss: Floats, N: int, accumulate: int, scale: float) -> None:
    """losses [N] -> loss [1]; the scale is 1/N, or less where several batches make one step."""
    loss[...] = (loss if accumulate else 0) + losses.sum() * scale
