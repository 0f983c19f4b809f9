"""Functions of each entry, and those that arrays have as methods, too."""

import math

from tinygpt.labs.arrays import indexing
from tinygpt.labs.arrays.dtypes import bool_, float64, int64
from tinygpt.labs.arrays.making import where
from tinygpt.labs.arrays.operations import BINARY, as_array, elementwise, is_array, spread
from tinygpt.labs.arrays.places import broadcast
from tinygpt.labs.arrays.strided import ndarray


def mapped(function, instead=None):
    """Of numbers and arrays alike. `instead` is for entries that Python's own function refuses."""

    def careful(value):
        try:
            return function(value)
        except (ValueError, OverflowError):
            if instead is None:
                raise
            return instead(value)

    def called(x):
        if isinstance(x, (list, tuple)):
            x = as_array(x)
        if not is_array(x):
            return careful(x)
        values = x.flat()
        try:
            made = [function(value) for value in values]
        except (ValueError, OverflowError):
            made = [careful(value) for value in values]
        return ndarray(made, x.shape, float64)

    return called


def no_number(value):
    return math.nan


def log_of(value):
    return -math.inf if value == 0 else math.nan


exp = mapped(math.exp, lambda value: math.inf if value > 0 else 0.0)
log = mapped(math.log, log_of)
sqrt = mapped(math.sqrt, no_number)
cos, sin = mapped(math.cos, no_number), mapped(math.sin, no_number)
tanh = mapped(math.tanh)
erf, erfc = mapped(math.erf), mapped(math.erfc)


def vectorize(function, otypes=None):
    return mapped(function)


def square(x):
    return x * x


def abs(x):
    return x.__abs__() if is_array(x) else math.fabs(x)


absolute = abs


def sign(x):
    return where(x > 0, 1.0, where(x < 0, -1.0, 0.0))


def negative(x):
    return -x


def isfinite(x):
    if not is_array(x):
        return math.isfinite(x)
    return ndarray([math.isfinite(value) for value in x.flat()], x.shape, bool_)


def isnan(x):
    if not is_array(x):
        return math.isnan(x)
    return ndarray([value != value for value in x.flat()], x.shape, bool_)


def frexp(x):
    pairs = [math.frexp(value) for value in x.flat()]
    return tuple([ndarray([pair[i] for pair in pairs], x.shape, (float64, int64)[i]) for i in (0, 1)])


def paired(pick):
    """NaN wherever one is, as NumPy's."""

    def one(x, y):
        if x != x or y != y:
            return math.nan
        return pick(x, y)

    def called(a, b):
        if not is_array(a) and not is_array(b):
            return one(a, b)
        a, b = as_array(a), as_array(b)
        shape = broadcast(a.shape, b.shape)
        values = [one(x, y) for x, y in zip(spread(a, shape), spread(b, shape))]
        return ndarray(values, shape, (a + b).dtype)

    return called


maximum = paired(lambda x, y: x if x > y else y)
minimum = paired(lambda x, y: x if x < y else y)


def clip(x, low, high):
    return minimum(maximum(x, low), high)


class Add:
    """add, and add.at, which counts a place as often as it is named."""

    def __call__(self, a, b):
        return elementwise(BINARY["add"], a, b)

    def at(self, x, key, value):
        shape, places = indexing.reached(x, key)
        values, data = spread(as_array(value), shape), x.data
        for place, number in zip(places, values):
            data[place] += number


add = Add()


def subtract(a, b):
    return elementwise(BINARY["sub"], a, b)


def multiply(a, b):
    return elementwise(BINARY["mul"], a, b)


def divide(a, b):
    return elementwise(BINARY["truediv"], a, b)


def dot(a, b):
    return a @ b


matmul = dot


def sum(x, axis=None, keepdims=False):
    return as_array(x).sum(axis, keepdims)


def mean(x, axis=None, keepdims=False):
    return as_array(x).mean(axis, keepdims)


def var(x, axis=None, keepdims=False):
    return as_array(x).var(axis, keepdims)


def std(x, axis=None, keepdims=False):
    return as_array(x).std(axis, keepdims)


def max(x, axis=None, keepdims=False):
    return as_array(x).max(axis, keepdims)


def min(x, axis=None, keepdims=False):
    return as_array(x).min(axis, keepdims)


amax, amin = max, min


def argmax(x, axis=None):
    return x.argmax(axis)


def all(x, axis=None):
    return as_array(x).all(axis)


def any(x, axis=None):
    return as_array(x).any(axis)


def transpose(x, axes=None):
    return x.transpose() if axes is None else x.transpose(axes)


def reshape(x, shape):
    return x.reshape(shape)


def swapaxes(x, a, b):
    return x.swapaxes(a, b)


def expand_dims(x, axis):
    axis %= x.ndim + 1
    return x.reshape(x.shape[:axis] + (1,) + x.shape[axis:])


def array_equal(a, b):
    a, b = as_array(a), as_array(b)
    return a.shape == b.shape and a.flat() == b.flat()


def allclose(a, b, rtol=1e-5, atol=1e-8):
    off = abs(as_array(a) - as_array(b))
    return bool((off <= atol + rtol * abs(as_array(b))).all())


__all__ = [
    "abs",
    "absolute",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "argmax",
    "array_equal",
    "clip",
    "cos",
    "divide",
    "dot",
    "erf",
    "erfc",
    "exp",
    "expand_dims",
    "frexp",
    "isfinite",
    "isnan",
    "log",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "negative",
    "reshape",
    "sign",
    "sin",
    "sqrt",
    "square",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "tanh",
    "transpose",
    "var",
    "vectorize",
]  # fmt: skip
