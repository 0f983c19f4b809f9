"""What makes of the array's class one that is computed with: operators and square brackets."""

from tinygpt.labs.arrays import indexing, operations
from tinygpt.labs.arrays.dtypes import bool_


def equip(ndarray):
    for name in operations.BINARY:
        call = operations.BINARY[name]
        setattr(ndarray, "__" + name + "__", forward(call))
        setattr(ndarray, "__r" + name + "__", reflected(call))
        setattr(ndarray, "__i" + name + "__", in_place(call))
    for name in operations.COMPARED:
        setattr(ndarray, "__" + name + "__", forward(operations.COMPARED[name]))
    ndarray.__matmul__ = operations.product
    ndarray.__getitem__, ndarray.__setitem__ = indexing.taken, indexing.put
    ndarray.__neg__ = each(lambda value: -value)
    ndarray.__abs__ = each(abs)
    ndarray.__invert__ = inverted


def forward(operation):
    return lambda self, other: operations.elementwise(operation, self, other)


def reflected(operation):
    return lambda self, other: operations.elementwise(operation, other, self)


def in_place(operation):
    def method(self, other):
        indexing.assign(self, operations.elementwise(operation, self, other))
        return self

    return method


def each(function):
    return lambda self: self.like([function(value) for value in self.flat()])


def inverted(self):
    return self.like([not value if self.dtype is bool_ else ~value for value in self.flat()])
