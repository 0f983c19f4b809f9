"""Arrays for where there is no NumPy: as much of its interface as the specifications use, in plain Python.

In a browser tab Python is MicroPython, and this package is what `import numpy` finds there (labs/shims.py). Numbers are
Python's: floats of 64 bits, whole numbers of any size. tests/labs/test_arrays.py holds it against NumPy.
"""

from math import e, inf, nan, pi

from tinygpt.labs.arrays import linalg, random
from tinygpt.labs.arrays.dtypes import (
    bool_,
    float16,
    float32,
    float64,
    floating,
    int8,
    int32,
    int64,
    integer,
    uint8,
    uint64,
)
from tinygpt.labs.arrays.functions import *  # noqa: F403
from tinygpt.labs.arrays.making import *  # noqa: F403
from tinygpt.labs.arrays.operators import equip
from tinygpt.labs.arrays.strided import ndarray

__version__ = "in plain Python"
newaxis = None

equip(ndarray)
