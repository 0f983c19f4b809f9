"""Shapes, strides, and where in a flat list the entries of an array are."""


def size_of(shape):
    total = 1
    for n in shape:
        total *= n
    return total


def strides_of(shape):
    """Of entries that lie one after the other, the last axis fastest."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def places_of(shape, strides, start):
    """Of every entry, in order."""
    found = [start]
    for n, step in zip(shape, strides):
        if n == 1:
            continue
        along = range(0, n * step, step) if step else [0] * n
        found = [place + more for place in found for more in along]
    return [] if 0 in shape else found


def broadcast(*shapes):
    """The shape that all of them are repeated to."""
    ndim, shape = max([len(one) for one in shapes]), []
    for axis in range(-ndim, 0):
        n = 1
        for one in shapes:
            if len(one) >= -axis and one[axis] != 1:
                if n not in (1, one[axis]):
                    raise ValueError(
                        "operands could not be broadcast together with shapes " + " ".join(map(str, shapes))
                    )
                n = one[axis]
        shape.append(n)
    return tuple(shape)


def repeated(shape, strides, to):
    """The strides by which an array of that shape reads as one of the shape `to`."""
    lacking = len(to) - len(shape)
    steps = [0] * lacking
    for axis in range(len(shape)):
        if shape[axis] != to[axis + lacking] and shape[axis] != 1:
            raise ValueError(f"could not broadcast an array from shape {shape} into shape {to}")
        steps.append(0 if shape[axis] == 1 else strides[axis])
    if lacking < 0:
        raise ValueError(f"could not broadcast an array from shape {shape} into shape {to}")
    return tuple(steps)


def axes_of(axis, ndim):
    """The axes that are meant, from 0 up: all for None."""
    if axis is None:
        return list(range(ndim))
    axes = [axis] if isinstance(axis, int) else list(axis)
    for one in axes:
        if not -ndim <= one < ndim:
            raise IndexError(f"axis {one} is out of bounds for an array of {ndim} dimensions")
    return sorted([one % ndim for one in axes])
