"""Start values of the C++ kernel: the bytes of init.py."""

import numpy as np
import pytest
from harness import cpu_lanes, library

from tinygpt.core.rng import INIT
from tinygpt.kernels.init import normal


@pytest.mark.parametrize("lanes", cpu_lanes())
@pytest.mark.parametrize(
    "seed, tensor, size, std",
    [
        (0, 0, 1, 1.0),
        (1, 3, 2, 0.02),
        (1337, 5, 31, 0.02),
        (2**32 - 1, 7, 10_007, 1 / 3),
        (42, 2, 250_000, 0.005),
    ],
)
def test_same_bytes_as_the_specification(seed, tensor, size, std, lanes):
    out = np.full(size + 16, 7, np.float32)
    library(lanes).tg_init(out.ctypes.data, size, seed, INIT, tensor, std)
    assert out[:size].tobytes() == normal(seed, INIT, tensor, size, std).tobytes()
    assert (out[size:] == 7).all()
