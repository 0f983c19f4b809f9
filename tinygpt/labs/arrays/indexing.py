"""What stands in square brackets: slices, new axes, whole numbers, arrays of places, masks."""

from tinygpt.labs.arrays.dtypes import bool_
from tinygpt.labs.arrays.operations import as_array, is_array, spread
from tinygpt.labs.arrays.places import broadcast, places_of, size_of, strides_of
from tinygpt.labs.arrays.strided import ndarray


class Slices:
    def __getitem__(self, key):
        return key


SLICES = Slices()  # MicroPython makes slices in brackets only
SLICE = type(SLICES[:])


def bounds(key, n):
    """Of a slice: its first place, its step, how many."""
    step = 1 if key.step is None else int(key.step)
    first, last = (0, n) if step > 0 else (n - 1, -1)
    if key.start is not None:
        first = held(int(key.start), n, step)
    if key.stop is not None:
        last = held(int(key.stop), n, step)
    count = (last - first + step - (1 if step > 0 else -1)) // step
    return first, step, max(0, count)


def held(place, n, step):
    place = place + n if place < 0 else place
    return min(max(place, 0), n) if step > 0 else min(max(place, -1), n - 1)


def entries(key, ndim):
    """The key as a list with an entry for each axis, and None for new ones."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if len([one for one in keys if one is Ellipsis]) == 0:
        keys.append(Ellipsis)
    place = [i for i in range(len(keys)) if keys[i] is Ellipsis][0]
    taken = 0
    for one in keys:
        if one is None or one is Ellipsis:
            continue
        taken += one.ndim if is_array(one) and one.dtype is bool_ else 1
    if taken > ndim:
        raise IndexError(f"too many indices: the array has {ndim} dimensions, but {taken} were indexed")
    return keys[:place] + [SLICES[:]] * (ndim - taken) + keys[place + 1 :]


def number_of(one):
    """A whole number, also of an array without axes; else None."""
    if isinstance(one, int) and not isinstance(one, bool):
        return one
    return None


def read(array, key):
    """The view that slices and numbers give, and arrays of places by their axis in it."""
    shape, strides, start, axis = [], [], array.start, 0
    places = []
    for one in entries(key, array.ndim):
        if one is None:
            shape.append(1)
            strides.append(0)
            continue
        if isinstance(one, list):
            one = as_array(one)
        if is_array(one) and one.dtype is bool_:
            if one.ndim != 1 or one.shape[0] != array.shape[axis]:
                raise IndexError(f"a mask of shape {one.shape} does not fit axis {axis} of shape {array.shape}")
            one = as_array([i for i in range(one.shape[0]) if one.data[one.start + i * one.strides[0]]])
        if axis >= array.ndim:
            raise IndexError("too many indices")
        n, step = array.shape[axis], array.strides[axis]
        axis += 1
        number = number_of(one)
        if number is not None:
            if not -n <= number < n:
                raise IndexError(f"index {number} is out of bounds for axis {axis - 1} with size {n}")
            start += (number % n) * step
        elif isinstance(one, SLICE):
            first, by, count = bounds(one, n)
            start += first * step
            shape.append(count)
            strides.append(step * by)
        elif is_array(one):
            places.append((len(shape), one, n))
            shape.append(n)
            strides.append(step)
        else:
            raise IndexError(f"arrays have no entry {one!r}")
    return array.view_of(shape, strides, start), places


def reached(array, key):
    """The shape that the key gives, and the places in the flat list."""
    view, chosen = read(array, key)
    if not chosen:
        return view.shape, places_of(view.shape, view.strides, view.start)
    first = chosen[0][0]
    if [axis for axis, _, _ in chosen] != list(range(first, first + len(chosen))):
        raise IndexError("arrays of places stand side by side, please")
    shape = broadcast(*[one.shape for _, one, _ in chosen])
    moved = [0] * size_of(shape)
    for axis, one, n in chosen:
        step, numbers = view.strides[axis], spread(one, shape)
        for number in numbers:
            if not -n <= number < n:
                raise IndexError(f"index {number} is out of bounds for axis {axis} with size {n}")
        moved = [place + (number % n) * step for place, number in zip(moved, numbers)]
    last = first + len(chosen)
    heads = places_of(view.shape[:first], view.strides[:first], view.start)
    tails = places_of(view.shape[last:], view.strides[last:], 0)
    places = [head + middle + tail for head in heads for middle in moved for tail in tails]
    return view.shape[:first] + shape + view.shape[last:], places


def taken(array, key):
    view, chosen = read(array, key)
    if chosen:
        shape, places = reached(array, key)
        data = array.data
        return ndarray([data[place] for place in places], shape, array.dtype)
    return view if view.shape or not is_number_key(key) else array.data[view.start]


def is_number_key(key):
    return not (key is Ellipsis or (isinstance(key, tuple) and [one for one in key if one is None or one is Ellipsis]))


def assign(array, value):
    put(array, Ellipsis, value)


def put(array, key, value):
    view, chosen = read(array, key)
    whole = not chosen and view.strides == strides_of(view.shape)
    shape, places = (view.shape, []) if whole else reached(array, key)
    count = size_of(shape)
    if isinstance(value, (list, tuple)):
        value = as_array(value)
    if is_array(value):
        while value.ndim > len(shape) and value.shape[0] == 1:
            value = value[0]
            if not is_array(value):
                break
    if is_array(value):
        values = spread(value, shape)
        if value.dtype.kind != "f" and array.dtype.kind == "f":
            values = [float(one) for one in values]
        elif value.dtype.kind == "f" and array.dtype.kind != "f":
            values = [int(one) for one in values]
    else:
        values = [float(value) if array.dtype.kind == "f" else value] * count
    data = array.data
    if whole:
        data[view.start : view.start + count] = values
        return
    for place, number in zip(places, values):
        data[place] = number
