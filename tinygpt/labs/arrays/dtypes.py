"""Kinds of numbers. A float is a float: the narrow ones only say how numbers are rounded and read from bytes."""

from array import array


class Dtype:
    """`kind` is f, i, u or b, `code` is array.array's letter, if it has one."""

    def __init__(self, name, kind, itemsize, code):
        self.name, self.kind, self.itemsize, self.code = name, kind, itemsize, code
        self.type = self  # as in x.dtype.type(3)

    def __call__(self, value):
        """A number of this kind; of an array, its numbers."""
        if hasattr(value, "astype"):
            return value.astype(self)
        if self.kind == "f":
            value = float(value)
            return value if self.code == "d" else rounded([value], self.code)[0]
        return bool(value) if self.kind == "b" else int(value)

    def __getitem__(self, key):
        return self  # floating[Any], in annotations

    def __repr__(self):
        return self.name


def rounded(values, code):
    """Each to the nearest number of a narrower kind."""
    return list(array(code, values))


float64 = floating = Dtype("float64", "f", 8, "d")
float32 = Dtype("float32", "f", 4, "f")
float16 = Dtype("float16", "f", 2, "")
int64 = integer = Dtype("int64", "i", 8, "q")
int32 = Dtype("int32", "i", 4, "i")
int8 = Dtype("int8", "i", 1, "b")
uint64 = Dtype("uint64", "u", 8, "Q")
uint8 = Dtype("uint8", "u", 1, "B")
bool_ = Dtype("bool", "b", 1, "")


def dtype_of(given):
    """One of these for Python's own types, too."""
    if given is None or given is float:
        return float64
    if given is int:
        return int64
    if given is bool:
        return bool_
    return given


def kind_of(values):
    """The dtype that NumPy would have of plain numbers."""
    dtype = bool_
    for value in values:
        if isinstance(value, float):
            return float64
        if not isinstance(value, bool):
            dtype = int64
    return dtype if values else float64


def joined(a, b):
    """What an operation on the two gives."""
    if a is b:
        return a
    order = "biuf"
    return a if order.index(a.kind) >= order.index(b.kind) else b
