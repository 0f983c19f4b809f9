"""The array: a flat list of numbers, and how to read it. A slice shares the list, so what is written there is seen.

Its operators and its square brackets come from operators.py. It has no __float__: MicroPython would take it for a
number in `2.0 * x`.
"""

from array import array

from tinygpt.labs.arrays.dtypes import bool_, dtype_of, float64, kind_of, rounded, uint8
from tinygpt.labs.arrays.places import axes_of, places_of, size_of, strides_of


class ndarray:
    def __init__(self, data, shape, dtype, start=0, strides=None):
        self.data, self.shape, self.dtype, self.start = data, shape, dtype, start
        self.strides = strides_of(shape) if strides is None else strides

    # --- what it is
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: size_of(self.shape))
    T = property(lambda self: self.transpose())
    itemsize = property(lambda self: self.dtype.itemsize)

    def flat(self):
        """Its numbers, in order; a list that may be its own, so nobody writes to it."""
        n = size_of(self.shape)
        if self.strides == strides_of(self.shape):
            if self.start == 0 and n == len(self.data):
                return self.data
            return self.data[self.start : self.start + n]
        data = self.data
        return [data[place] for place in places_of(self.shape, self.strides, self.start)]

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        for i in range(self.shape[0]):
            yield self[i]

    def item(self):
        (value,) = self.flat()
        return value

    def __bool__(self):
        return bool(self.item())

    def tolist(self):
        return nested(self.flat(), self.shape)

    def __repr__(self):
        return "array(" + str(self.tolist()) + ")"

    # --- the same numbers, read otherwise
    def view_of(self, shape, strides, start):
        return ndarray(self.data, tuple(shape), self.dtype, start, tuple(strides))

    def reshape(self, *shape):
        shape = list(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else list(shape)
        if -1 in shape:
            known = size_of([n for n in shape if n != -1])
            shape[shape.index(-1)] = self.size // known if known else 0
        if size_of(shape) != self.size:
            raise ValueError(f"cannot reshape an array of size {self.size} into shape {tuple(shape)}")
        if self.strides == strides_of(self.shape):
            return self.view_of(shape, strides_of(shape), self.start)
        split = splitting(self.shape, self.strides, shape)
        if split is not None:
            return self.view_of(shape, split, self.start)
        return ndarray(self.flat(), tuple(shape), self.dtype)

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = list(axes) if axes else list(range(self.ndim))[::-1]
        return self.view_of([self.shape[a] for a in order], [self.strides[a] for a in order], self.start)

    def swapaxes(self, a, b):
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(*order)

    def like(self, values):
        """An array of these numbers, else as this one."""
        return ndarray(values, self.shape, self.dtype)

    def copy(self):
        return self.like(list(self.flat()))

    def astype(self, dtype):
        dtype, values = dtype_of(dtype), self.flat()
        if dtype.kind == "f":
            values = [float(v) for v in values]
            values = values if dtype is float64 else rounded(values, dtype.code)
        else:
            values = [bool(v) for v in values] if dtype is bool_ else [int(v) for v in values]
        return ndarray(values, self.shape, dtype)

    def view(self, dtype):
        """Bytes as numbers of another kind; a copy, which NumPy's is not."""
        if dtype is self.dtype:
            return self
        if self.dtype is not uint8:
            raise TypeError("only bytes can be viewed as numbers of another kind")
        values = list(array(dtype.code, bytes(self.flat())))
        return ndarray(values, (len(values),), dtype)

    def tobytes(self):
        return bytes(array(self.dtype.code, self.flat()))

    # --- along axes
    def reduced(self, axis, keepdims, of_rows):
        """`of_rows(rows, n)` makes of numbers, n of them for each entry that is left, those entries."""
        axes = axes_of(axis, self.ndim)
        rest = [a for a in range(self.ndim) if a not in axes]
        n = size_of([self.shape[a] for a in axes])
        values = of_rows(self.transpose(rest + axes).flat() if rest else self.flat(), n)
        if axis is None and not keepdims:
            return values[0]
        shape = [self.shape[a] for a in rest]
        if keepdims:
            shape = [1 if a in axes else self.shape[a] for a in range(self.ndim)]
        if not shape:
            return values[0]
        return ndarray(values, tuple(shape), kind_of(values[:1]))

    def sum(self, axis=None, keepdims=False, dtype=None):
        zero = 0.0 if self.dtype.kind == "f" else 0
        return self.reduced(axis, keepdims, lambda v, n: [sum(v[i : i + n], zero) for i in range(0, len(v), n or 1)])

    def mean(self, axis=None, keepdims=False, dtype=None):
        return self.reduced(axis, keepdims, lambda v, n: [sum(v[i : i + n], 0.0) / n for i in range(0, len(v), n)])

    def var(self, axis=None, keepdims=False):
        off = self - self.mean(axis, True)
        return (off * off).mean(axis, keepdims)

    def std(self, axis=None, keepdims=False):
        return self.var(axis, keepdims) ** 0.5

    def max(self, axis=None, keepdims=False):
        return self.reduced(axis, keepdims, lambda v, n: [largest(v[i : i + n]) for i in range(0, len(v), n)])

    def min(self, axis=None, keepdims=False):
        return -((-self).max(axis, keepdims))

    def argmax(self, axis=None):
        return self.reduced(
            axis, False, lambda v, n: [first_of(v[i : i + n], max(v[i : i + n])) for i in range(0, len(v), n)]
        )

    def all(self, axis=None):
        return self.reduced(axis, False, lambda v, n: [all(v[i : i + n]) for i in range(0, len(v), n)])

    def any(self, axis=None):
        return self.reduced(axis, False, lambda v, n: [any(v[i : i + n]) for i in range(0, len(v), n)])

    __hash__ = None  # type: ignore[assignment]


def nested(values, shape):
    if len(shape) <= 1:
        return list(values) if shape else values[0]
    step = size_of(shape[1:])
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def largest(values):
    """NaN where one is, as NumPy has it."""
    for value in values:
        if value != value:
            return value
    return max(values)


def first_of(values, wanted):
    for place in range(len(values)):
        if values[place] == wanted or values[place] != values[place]:
            return place
    return 0


def splitting(shape, strides, to):
    """The strides by which axes that are only split read without a copy; None where there are none."""
    steps, axis, left = [], 0, None
    for n in to:
        while left is None or (left == 1 and n != 1):
            if axis == len(shape):
                return steps + [0] * (len(to) - len(steps)) if n == 1 else None
            left, step = shape[axis], strides[axis]
            axis += 1
        if left % n:
            return None
        left //= n
        steps.append(step * left if n != 1 else 0)
    return steps if (left in (None, 1)) and all([n == 1 for n in shape[axis:]]) else None
