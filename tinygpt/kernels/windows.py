"""What a step reads: windows of the corpus, at places that seed and step decide."""

from __future__ import annotations

import numpy as np

from tinygpt.core.rng import BATCH, shuffled_offsets, window_offsets
from tinygpt.kernels.arrays import Bytes, Ints


def draw_windows(
    *,
    corpus: Bytes,
    counters: Ints,
    tokens: Ints,
    targets: Ints,
    B: int,
    T: int,
    bytes: int,
    seed: int,
    purpose: int,
    parts: int = 0,
) -> None:
    """corpus [bytes], counters [4] -> tokens [B*T], targets [B*T], the byte after each token."""
    step, part = (int(counters[0]) + 1, int(counters[1])) if purpose == BATCH else (0, int(counters[2]))
    if parts:
        offsets = shuffled_offsets(seed, ((step - 1) * parts + part) * B, B, bytes, T)
    else:
        offsets = window_offsets(seed, purpose, step, (part + 1) * B, bytes, T)[part * B :]
    windows = corpus[np.asarray(offsets)[:, None] + np.arange(T + 1)]
    tokens[...] = windows[:, :-1].reshape(-1)
    targets[...] = windows[:, 1:].reshape(-1)
