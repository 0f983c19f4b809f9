"""The specification as it is in a tab: its kernels, imported once more with labs' arrays in NumPy's place."""

import functools
import sys

from tinygpt.labs import arrays

TWICE = ("tinygpt.kernels", "numpy")


def ours(name):
    return any(name == room or name.startswith(room + ".") for room in TWICE)


@functools.cache
def specification():
    """Every kernel by name."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if ours(name)}
    try:
        sys.modules["numpy"] = arrays
        sys.modules["numpy.typing"] = typing = type(sys)("numpy.typing")
        typing.NDArray = arrays.floating
        arrays.typing = typing
        from tinygpt.kernels.spec import SPEC

        return SPEC
    finally:
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(kept)
        import tinygpt

        tinygpt.kernels = sys.modules["tinygpt.kernels"]


def as_ours(value):
    """An array of NumPy's as one of these, of its own memory."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return value
    dtype = {"f": arrays.float64, "i": arrays.int64, "u": arrays.uint8 if value.dtype == np.uint8 else arrays.uint64}
    return arrays.array(value.tolist(), dtype[value.dtype.kind]).reshape(value.shape)
