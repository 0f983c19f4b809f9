"""One thread: these models are small, and the machine has other work."""

import numpy as np
import pytest

from tinygpt.core.config import RunConfig
from tinygpt.core.presets import preset

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def noise() -> bytes:
    """Random bytes: no window can be told from another before it is read."""
    return np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8).tobytes()


@pytest.fixture
def little() -> RunConfig:
    """Odd sizes, several heads and layers, and steps that take milliseconds."""
    return preset("tiny").replace(layers=2, d_model=24, heads=3, ctx=11, batch=4, steps=20, eval_batches=3)
