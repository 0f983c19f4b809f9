"""The gradients' global norm, clipped exactly as PyTorch does it."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats

CLIP_EPS = 1e-6  # as in torch.nn.utils.clip_grad_norm_


def grad_norm(*, grads: Floats, norm: Floats, P: int, limit: float) -> None:
    """grads [P] -> norm [2]: the norm itself, and the factor that brings it down to `limit` (0: no limit)."""
    norm[0] = np.sqrt(np.square(grads).sum())
    norm[1] = np.minimum(1, limit / (norm[0] + CLIP_EPS)) if limit else 1  # np.minimum lets a NaN through
