"""The update by AdamW, exactly as PyTorch does it."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def adamw(
    *,
    grads: Floats,
    norm: Floats,
    rates: Floats,
    counters: Ints,
    weights: Floats,
    m: Floats,
    v: Floats,
    P: int,
    decayed: int,
    rows: int,
    columns: int,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """All [P], but norm [2] of `grad_norm`, rates [rows,columns] and counters [4], which say the row: counters[0]
    steps are done. Weight decay is for the first `decayed` entries only.

    m and v are running means of the gradient g and of its square. Started at 0, after t steps they are short
    by the factors 1 - beta^t, and the step with both corrected is

        lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) = step_size m / (sqrt(v) root_correction + eps)

    Decay is decoupled: it shrinks the weights themselves, and is no part of the gradient that m and v see.
    """
    step_size, root_correction, decay = rates[counters[0] % rows][:3]
    g = grads * norm[1]
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g * g
    weights[:decayed] *= 1 - decay
    weights -= step_size * m / (np.sqrt(v) * root_correction + eps)
