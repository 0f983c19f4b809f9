"""What a model would say behind each row: the byte with the largest logit."""

from __future__ import annotations

import numpy as np

from tinygpt.kernels.arrays import Floats, Ints


def likeliest(*, logits: Floats, best: Ints, N: int, V: int) -> None:
    """logits [N,V] -> best [N], of equal ones the first; -1 where not all of a row are numbers."""
    best[...] = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)
