"""The next byte: of the likeliest ones that top-k and top-p leave, the one that a draw falls on."""

from __future__ import annotations

import numpy as np

from tinygpt.core.config import SampleConfig
from tinygpt.core.ops.op import bits_float
from tinygpt.core.ops.sample import FIRST, NO_NUMBER, OVER, SEED, STOP, STOPPED, TEMPERATURE, TOP_K, TOP_P, WRITTEN
from tinygpt.core.rng import sample_uniform
from tinygpt.core.run.sampler import choose
from tinygpt.kernels.arrays import Floats, Ints


def sample(
    *, logits: Floats, choice: Ints, written: Ints, token: Ints, position: Ints, cursor: Ints, room: int
) -> None:
    """logits [256], choice [16] -> written [room], a ring, and token [1]; position [1] and cursor [2] move on.

    Once a text is over, nothing changes any more.
    """
    if cursor[OVER]:
        return
    if not np.isfinite(logits).all():
        cursor[OVER] = NO_NUMBER
        return
    temperature, top_p = bits_float(int(choice[TEMPERATURE])), bits_float(int(choice[TOP_P]))
    settings = SampleConfig(temperature=temperature, top_k=int(choice[TOP_K]), top_p=top_p)
    uniform = sample_uniform(int(choice[SEED]) & 0xFFFFFFFF, int(choice[FIRST]) + int(cursor[WRITTEN]))
    byte = choose(logits.tolist(), settings, uniform)
    written[cursor[WRITTEN] % room] = byte
    token[0] = byte
    position[0] += 1
    cursor[WRITTEN] += 1
    if int(choice[STOP + byte // 32]) >> (byte % 32) & 1:
        cursor[OVER] = STOPPED
