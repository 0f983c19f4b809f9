"""The generator of core/rng.py on arrays: Philox4x32-10. philox.h and philox.wgsl are the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinygpt.core.rng import MASK, PHILOX_M0, PHILOX_M1, PHILOX_W0, PHILOX_W1

U64 = npt.NDArray[np.uint64]

WORD = np.uint64(MASK)
SHIFT = np.uint64(32)


def philox_words(key: tuple[int, int], first: int, calls: int, c1: int = 0, c2: int = 0, c3: int = 0) -> U64:
    """[calls, 4] words: `core.rng.philox` at counters (first, c1, c2, c3), (first + 1, c1, c2, c3), …"""
    c = [np.arange(first, first + calls, dtype=np.uint64)]
    c += [np.full(calls, word, dtype=np.uint64) for word in (c1, c2, c3)]
    k0, k1 = key
    for _ in range(10):
        product0 = c[0] * np.uint64(PHILOX_M0)
        product1 = c[2] * np.uint64(PHILOX_M1)
        c = [
            (product1 >> SHIFT) ^ c[1] ^ np.uint64(k0),
            product1 & WORD,
            (product0 >> SHIFT) ^ c[3] ^ np.uint64(k1),
            product0 & WORD,
        ]
        k0 = (k0 + PHILOX_W0) & MASK
        k1 = (k1 + PHILOX_W1) & MASK
    return np.stack(c, axis=1)
