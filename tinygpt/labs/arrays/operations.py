"""What is done entry by entry, with what is smaller repeated; and the matrix product."""

from math import inf, nan

from tinygpt.labs.arrays.dtypes import bool_, dtype_of, float64, int64, joined, kind_of
from tinygpt.labs.arrays.places import broadcast, places_of, repeated, size_of
from tinygpt.labs.arrays.strided import ndarray

SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# Loops for each symbol, for an operation that is called for each entry would take twice as long.
LOOPS = """
def both(a, b): return [x {0} y for x, y in zip(a, b)]
def right(a, y): return [x {0} y for x in a]
def left(x, b): return [x {0} y for y in b]
"""


class Operation:
    def __init__(self, name, symbol, compares):
        made = {}
        exec(LOOPS.format(symbol), made)
        self.name, self.compares = name, compares
        self.both, self.right, self.left = made["both"], made["right"], made["left"]
        self.one = {"truediv": divided, "pow": raised}.get(name)

    def values(self, a, b):
        """Of two lists, or of a list and a number."""
        try:
            if not isinstance(a, list):
                return self.left(a, b)
            return self.both(a, b) if isinstance(b, list) else self.right(a, b)
        except (ZeroDivisionError, OverflowError):
            n = len(a) if isinstance(a, list) else len(b)
            a, b = [one if isinstance(one, list) else [one] * n for one in (a, b)]
            return [self.one(x, y) for x, y in zip(a, b)]

    def dtype(self, a, b):
        if self.compares:
            return bool_
        return float64 if self.name == "truediv" else joined(a, b)


def divided(x, y):
    """As IEEE has it, where Python refuses."""
    if y:
        return x / y
    return nan if x == 0 or x != x else (inf if x > 0 else -inf)


def raised(x, y):
    try:
        return x**y
    except ZeroDivisionError:
        return inf
    except OverflowError:
        return inf


BINARY, COMPARED = {}, {}
for _name in SYMBOLS:
    BINARY[_name] = Operation(_name, SYMBOLS[_name], False)
for _name in COMPARISONS:
    COMPARED[_name] = Operation(_name, COMPARISONS[_name], True)


def is_array(value):
    return isinstance(value, ndarray)


def dtype_of_number(value):
    return float64 if isinstance(value, float) else bool_ if isinstance(value, bool) else int64


def array(value, dtype=None):
    """A copy; of nested lists, or of one of these."""
    if is_array(value):
        return value.copy() if dtype is None else value.astype(dtype)
    shape, values = [], [value]
    while values and (isinstance(values[0], (list, tuple)) or is_array(values[0])):
        lengths = [len(one) for one in values]
        if min(lengths) != max(lengths):
            raise ValueError("the rows of an array have the same length")
        shape.append(lengths[0])
        values = [each for one in values for each in one]
    dtype = kind_of(values) if dtype is None else dtype_of(dtype)
    return ndarray([dtype(one) for one in values], tuple(shape), dtype)


def as_array(value):
    """An array of nested lists of numbers."""
    return value if is_array(value) else array(value)


def spread(array, shape):
    """Its numbers, repeated to a shape."""
    if array.shape == shape:
        return array.flat()
    data = array.data
    return [data[place] for place in places_of(shape, repeated(array.shape, array.strides, shape), array.start)]


def elementwise(operation, a, b):
    if isinstance(a, (list, tuple)):
        a = as_array(a)
    if isinstance(b, (list, tuple)):
        b = as_array(b)
    of_a = a.dtype if is_array(a) else dtype_of_number(a)
    of_b = b.dtype if is_array(b) else dtype_of_number(b)
    if not is_array(b):
        shape, values = a.shape, operation.values(a.flat(), b)
    elif not is_array(a):
        shape, values = b.shape, operation.values(a, b.flat())
    else:
        shape = a.shape if a.shape == b.shape else broadcast(a.shape, b.shape)
        values = operation.values(spread(a, shape), spread(b, shape))
    return ndarray(values, shape, operation.dtype(of_a, of_b))


def product(a, b):
    """a @ b: matrices in the last two axes, those before them repeated; a vector is a row, or a column."""
    if a.ndim == b.ndim == 1:
        return product(a.reshape(1, -1), b.reshape(-1, 1)).item()
    if a.ndim == 1:
        return product(a.reshape(1, -1), b).reshape(b.shape[:-2] + b.shape[-1:])
    if b.ndim == 1:
        return product(a, b.reshape(-1, 1)).reshape(a.shape[:-1])
    n, m, k = a.shape[-2], b.shape[-1], a.shape[-1]
    if b.shape[-2] != k:
        raise ValueError(f"cannot multiply matrices of shapes {a.shape} and {b.shape}")
    outer = broadcast(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else ()
    rows, columns = spread(a, outer + (n, k)), spread(b.swapaxes(-1, -2), outer + (m, k))
    values = []
    for one in range(size_of(outer)):
        lines = [columns[i : i + k] for i in range(one * m * k, (one + 1) * m * k, k)] if k else [[]] * m
        for i in range(one * n * k, (one + 1) * n * k, k or 1):
            row = rows[i : i + k]
            for line in lines:
                total = 0.0
                for x, y in zip(row, line):
                    total += x * y
                values.append(total)
    return ndarray(values, outer + (n, m), joined(a.dtype, b.dtype))
