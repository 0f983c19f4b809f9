"""Stochastic gradient descent with momentum, as PyTorch does it (no dampening, not Nesterov's)."""

from __future__ import annotations

from tinygpt.kernels.arrays import Floats, Ints


def sgd(
    *,
    grads: Floats,
    norm: Floats,
    rates: Floats,
    counters: Ints,
    weights: Floats,
    m: Floats,
    P: int,
    decayed: int,
    rows: int,
    momentum: float,
) -> None:
    """All [P], but norm [2] of `grad_norm`, rates [rows,2] and counters [4], which say the row: counters[0] steps are
    done. Weight decay is for the first `decayed` entries only.

    m gathers the gradients, each worth `momentum` of what it was a step before. Decay is decoupled, as with AdamW.
    """
    lr, decay = rates[counters[0] % rows]
    m[...] = momentum * m + grads * norm[1]
    weights[:decayed] *= 1 - decay
    weights -= lr * m
