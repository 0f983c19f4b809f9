"""The arrays that a specification takes: float32 or float64 throughout, and whole numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Bytes = npt.NDArray[np.uint8]
