"""What MicroPython lacks of the modules that the specifications import: NumPy, and what is for types alone."""

import builtins
import sys

from tinygpt.labs import arrays
from tinygpt.labs.arrays import indexing


class Named:
    """A module of these names."""

    def __init__(self, names):
        for name in names:
            setattr(self, name, names[name])


class Kind:
    """A type in an annotation, whatever is in its brackets."""

    def __getitem__(self, key):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__


def import_module(name):
    __import__(name)
    return sys.modules[name]


def find_spec(name):
    """Whether there is such a module."""
    from os import stat

    try:
        return stat("/" + name.replace(".", "/") + ".py")
    except OSError:
        return None


def sliced(start, stop=None, step=None):
    """A slice, which MicroPython makes in brackets only."""
    if stop is None:
        start, stop = None, start
    return indexing.SLICES[start:stop:step]


def install():
    """From here on these can be imported."""
    kind = Kind()
    builtins.slice = sliced
    typing = Named({"Any": kind, "NamedTuple": object, "TypeVar": lambda name: kind, "TYPE_CHECKING": False})
    arrays.typing = Named({"NDArray": kind, "DTypeLike": kind})
    tricks = Named({"as_strided": arrays.as_strided})
    arrays.lib = Named({"stride_tricks": tricks})
    util = Named({"find_spec": find_spec})
    sys.modules["__future__"] = Named({"annotations": None})
    sys.modules["typing"] = typing
    sys.modules["collections.abc"] = Named({"Callable": kind, "Iterator": kind})
    sys.modules["importlib"] = Named({"import_module": import_module, "util": util})
    sys.modules["importlib.util"] = util
    sys.modules["numpy"] = arrays
    sys.modules["numpy.typing"] = arrays.typing
    sys.modules["numpy.lib"] = arrays.lib
    sys.modules["numpy.lib.stride_tricks"] = tricks
