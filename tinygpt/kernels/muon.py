"""Muon: a matrix steps by its momentum with all singular values brought near 1."""

from __future__ import annotations

import math

import numpy as np

from tinygpt.core.ops.muon_matrices import COEFFICIENTS, MATRIX_RATES, matrices_of
from tinygpt.kernels.arrays import Floats, Ints

EPS = 1e-7  # the least norm that is divided by, as in torch.optim.Muon


def muon(
    *,
    grads: Floats,
    norm: Floats,
    rates: Floats,
    counters: Ints,
    weights: Floats,
    m: Floats,
    P: int,
    rows: int,
    columns: int,
    layers: int,
    stride: int,
    C: int,
    W: int,
    F: int,
    gates: int,
    o_at: int,
    in_at: int,
    out_at: int,
    steps: int,
    every: int,
    desks: int,
    momentum: float,
) -> None:
    """grads, weights and m [P] are the stretch of the blocks' matrices, norm [2] is of `grad_norm`, and counters [4]
    say the row of rates [rows,columns]: counters[0] steps are done.

    m is the gradients' running mean, and u looks one step ahead of it, as Nesterov's does. Decay is decoupled. A map
    with more outputs than inputs takes larger steps, so that its outputs change as much as others' do. (`every` and
    `desks` are how engines go about it.)
    """
    row = rates[counters[0] % rows]
    lr, decay = row[MATRIX_RATES : MATRIX_RATES + 2]
    coefficients = row[COEFFICIENTS : COEFFICIENTS + 3 * steps].reshape(steps, 3)
    for start, outputs, inputs in matrices_of(layers, stride, C, W, F, gates, o_at, in_at, out_at):
        here = slice(start, start + outputs * inputs)
        g = grads[here] * norm[1]
        m[here] = momentum * m[here] + (1 - momentum) * g
        u = (1 - momentum) * g + momentum * m[here]
        x = orthogonal(u.reshape(outputs, inputs), coefficients)
        weights[here] *= 1 - decay
        weights[here] -= lr * math.sqrt(max(1, outputs / inputs)) * x.reshape(-1)


def orthogonal(u: Floats, coefficients: Floats) -> Floats:
    """u = U S V^T with S brought near the identity, by Newton and Schulz.

    a X + b A X + c A^2 X with A = X X^T has the singular vectors of X and, of each singular value s of X,
    a s + b s^3 + c s^5. X starts with a norm of 1, so that none is larger.
    """
    x: Floats = u / np.maximum(np.linalg.norm(u), EPS)
    if x.shape[0] > x.shape[1]:
        x = x.T
    for a, b, c in coefficients:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if x.shape == u.shape else x.T
