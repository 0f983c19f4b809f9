"""The next byte: of the likeliest ones that top-k and top-p leave, the one that a draw falls on."""

from __future__ import annotations

import numpy as np

from tinygpt.core.config import SampleConfig
from tinygpt.core.ops.op import bits_float
from tinygpt.core.ops.sample import FIRST, NO_NUMBER, OVER, SEED, STOP, STOPPED, TEMPERATURE, TOP_K, TOP_P, WRITTEN
from tinygpt.core.rng import sample_uniform
from tinygpt.core.write.sampler import choose
from tinygpt.kernels.arrays import Floats, Ints


def sample(
    *,
    logits: Floats,
    choice: Ints,
    row: Ints | None,
    written: Ints,
    token: Ints,
    position: Ints,
    cursor: Ints,
    room: int,
    N: int = 1,
    R: int = 1,
) -> None:
    """logits [N,256], choice [R,16] -> written [R,room], rings, and token [R]; position [R] and cursor [R,2] move on.

    Of text row[0] alone, or of all. Once a text is over, nothing of it changes any more.
    """
    for n in range(N):
        r = n if row is None else int(row[0])
        if not cursor[r, OVER]:
            byte = drawn(logits[n], choice[r], int(cursor[r, WRITTEN]))
            if byte is None:
                cursor[r, OVER] = NO_NUMBER
                continue
            written[r, cursor[r, WRITTEN] % room] = byte
            token[r] = byte
            position[r] += 1
            cursor[r, WRITTEN] += 1
            if int(choice[r, STOP + byte // 32]) >> (byte % 32) & 1:
                cursor[r, OVER] = STOPPED


def drawn(logits: Floats, choice: Ints, number: int) -> int | None:
    """A text's byte of that number; None where logits are no numbers."""
    if not np.isfinite(logits).all():
        return None
    temperature, top_p = bits_float(int(choice[TEMPERATURE])), bits_float(int(choice[TOP_P]))
    settings = SampleConfig(temperature=temperature, top_k=int(choice[TOP_K]), top_p=top_p)
    uniform = sample_uniform(int(choice[SEED]) & 0xFFFFFFFF, int(choice[FIRST]) + number)
    return choose(logits.tolist(), settings, uniform)
