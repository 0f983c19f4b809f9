"""Muon: hidden matrices take steps of (nearly) equal singular values, all other parameters those of AdamW.

m := momentum m + (1 - momentum) g      u = (1 - momentum) g + momentum m
W := W - rate decay W - rate sqrt(max(1, outputs / inputs)) orthogonal(u)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tinygpt.core.config import TrainConfig

QUINTIC = (3.4445, -4.7750, 2.0315)
POLAR = {
    3: [(8.093369, -23.620432, 17.446152), (3.636586, -2.721927, 0.536546), (2.661300, -1.977155, 0.452616)],
    4: [
        (8.340981, -24.597371, 18.223027),
        (3.977995, -2.965434, 0.564272),
        (3.327479, -2.495237, 0.510813),
        (2.308565, -1.675994, 0.419574),
    ],
}
EPS = 1e-7


class Muon(torch.optim.AdamW):
    """AdamW over its groups, and Muon over `matrices`, with the rate in `matrix_lr`."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        matrices: list[nn.Parameter],
        matrix_lr: Tensor,
        train: TrainConfig,
        iterate_in: torch.dtype,
        **adamw: Any,
    ) -> None:
        super().__init__(groups, **adamw)
        self.matrix_lr, self.train, self.iterate_in = matrix_lr, train, iterate_in
        self.by_shape: dict[torch.Size, list[Tensor]] = {}
        for matrix in matrices:
            self.by_shape.setdefault(matrix.shape, []).append(matrix)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for matrices in self.by_shape.values():
            self.step_matrices(matrices)

    def step_matrices(self, matrices: list[Tensor]) -> None:
        """Of one shape: each product is one batch for all of them. A captured step reads the rate anew."""
        train, (outputs, inputs) = self.train, matrices[0].shape
        grads = [matrix.grad for matrix in matrices if matrix.grad is not None]
        means = [self.state[matrix]["exp_avg"] for matrix in matrices]
        torch._foreach_lerp_(means, grads, 1 - train.momentum)
        ahead = torch.stack(torch._foreach_lerp(grads, means, train.momentum))
        rate = self.matrix_lr * math.sqrt(max(1, outputs / inputs))
        polynomials = POLAR[train.ns_steps] if train.ns_polynomials == "polar" else [QUINTIC] * train.ns_steps
        steps = orthogonal(ahead, polynomials, self.iterate_in) * -rate
        if train.weight_decay:
            torch._foreach_mul_(matrices, 1 - self.matrix_lr * train.weight_decay)
        torch._foreach_add_(matrices, list(steps))

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for matrices in self.by_shape.values():
            for matrix in matrices:
                matrix.grad = None


def orthogonal(x: Tensor, polynomials: list[tuple[float, float, float]], dtype: torch.dtype) -> Tensor:
    """x [n, outputs, inputs] with singular values of each matrix brought near 1, by Newton and Schulz:

    X := a X + b (X Xᵀ) X + c (X Xᵀ)² X, which is X (a I + b XᵀX + c (XᵀX)²) too: the smaller square is taken.
    """
    tall, given = x.shape[1] > x.shape[2], x.dtype
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp(min=EPS)).to(dtype)
    for a, b, c in polynomials:
        square = x.mT @ x if tall else x @ x.mT
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, x, polynomial, beta=a) if tall else torch.baddbmm(x, polynomial, x, beta=a)
    return x.to(given)
