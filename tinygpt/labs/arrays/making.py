"""New arrays, and arrays put together of others."""

from math import inf, nan

from tinygpt.labs.arrays.dtypes import bool_, dtype_of, float64, int64, joined, kind_of, uint8
from tinygpt.labs.arrays.operations import array, as_array, is_array, spread
from tinygpt.labs.arrays.places import broadcast, size_of
from tinygpt.labs.arrays.strided import ndarray


def shaped(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def full(shape, value, dtype=None):
    shape = shaped(shape)
    dtype = kind_of([value]) if dtype is None else dtype_of(dtype)
    return ndarray([dtype(value)] * size_of(shape), shape, dtype)


def zeros(shape, dtype=None):
    return full(shape, 0, dtype_of(dtype))


def ones(shape, dtype=None):
    return full(shape, 1, dtype_of(dtype))


empty = zeros


def full_like(x, value):
    return full(x.shape, value, x.dtype)


def zeros_like(x):
    return full_like(x, 0)


def ones_like(x):
    return full_like(x, 1)


empty_like = zeros_like


def asarray(value, dtype=None):
    return value if is_array(value) and (dtype is None or dtype is value.dtype) else array(value, dtype)


ascontiguousarray = asarray


def frombuffer(data, dtype=uint8):
    whole = ndarray(list(bytes(data)), (len(data),), uint8)
    return whole.view(dtype)


def arange(start, stop=None, step=1, dtype=None):
    first, last = (0, start) if stop is None else (start, stop)
    if [one for one in (first, last, step) if isinstance(one, float)]:
        count = max(0, int(-((first - last) // step)))
        values = [first + i * step for i in range(count)]
    else:
        values = list(range(first, last, step))
    made = ndarray(values, (len(values),), kind_of(values[:1]) if values else int64)
    return made if dtype is None else made.astype(dtype)


def eye(n, dtype=None):
    made = zeros((n, n), dtype)
    for i in range(n):
        made[i, i] = 1
    return made


def tri(n, m=None, k=0, dtype=float64):
    dtype, m = dtype_of(dtype), n if m is None else m
    return ndarray([dtype(j <= i + k) for i in range(n) for j in range(m)], (n, m), dtype)


def tril(x, k=0):
    return where(tri(x.shape[-2], x.shape[-1], k, bool_), x, 0.0)


def where(condition, a, b):
    condition = as_array(condition)
    shape = broadcast(condition.shape, *[one.shape for one in (a, b) if is_array(one)])
    parts = [spread(one, shape) if is_array(one) else [one] * size_of(shape) for one in (a, b)]
    dtypes = [one.dtype if is_array(one) else kind_of([one]) for one in (a, b)]
    values = [x if c else y for c, x, y in zip(spread(condition, shape), *parts)]
    return ndarray(values, shape, joined(*dtypes))


def choose(which, choices):
    parts = [spread(as_array(one), which.shape) for one in choices]
    values = [parts[number][i] for i, number in enumerate(which.flat())]
    return ndarray(values, which.shape, choices[0].dtype)


def concatenate(parts, axis=0):
    parts = [as_array(one) for one in parts]
    ndim = parts[0].ndim
    axis %= ndim
    shape = list(parts[0].shape)
    shape[axis] = sum([one.shape[axis] for one in parts])
    made = zeros(shape, parts[0].dtype)
    at = 0
    for one in parts:
        made.transpose(front(axis, ndim))[at : at + one.shape[axis]] = one.transpose(front(axis, ndim))
        at += one.shape[axis]
    return made


def front(axis, ndim):
    return [axis] + [one for one in range(ndim) if one != axis]


def stack(parts, axis=0):
    parts = [as_array(one) for one in parts]
    axis %= parts[0].ndim + 1
    return concatenate([one.reshape(one.shape[:axis] + (1,) + one.shape[axis:]) for one in parts], axis)


def hstack(parts):
    return concatenate(parts, 1 if as_array(parts[0]).ndim > 1 else 0)


def vstack(parts):
    return concatenate([one.reshape(1, -1) if one.ndim == 1 else one for one in parts])


def split(x, count, axis=0):
    axis %= x.ndim
    each, turned = x.shape[axis] // count, x.transpose(front(axis, x.ndim))
    back = list(range(1, axis + 1)) + [0] + list(range(axis + 1, x.ndim))
    return [turned[i * each : (i + 1) * each].transpose(back) for i in range(count)]


def repeat(x, count, axis=None):
    if axis is None:
        return repeat(x.reshape(-1), count, 0)
    axis %= x.ndim
    shape = x.shape[:axis] + (x.shape[axis], count) + x.shape[axis + 1 :]
    wide = ndarray(spread(x.reshape(x.shape[: axis + 1] + (1,) + x.shape[axis + 1 :]), shape), shape, x.dtype)
    return wide.reshape(x.shape[:axis] + (x.shape[axis] * count,) + x.shape[axis + 1 :])


def outer(a, b):
    return as_array(a).reshape(-1, 1) * as_array(b).reshape(1, -1)


def broadcast_to(x, shape):
    return ndarray(spread(x, tuple(shape)), tuple(shape), x.dtype)


def unique(x, return_inverse=False):
    values = x.flat()
    found = sorted(dict.fromkeys(values, True))
    each = ndarray(found, (len(found),), x.dtype)
    if not return_inverse:
        return each
    numbers = {value: i for i, value in enumerate(found)}
    return each, ndarray([numbers[value] for value in values], x.shape, int64)


def as_strided(x, shape, strides):
    """numpy.lib.stride_tricks': strides are in bytes."""
    return x.view_of(shape, [step // x.itemsize for step in strides], x.start)


__all__ = [
    "arange", "array", "as_strided", "asarray", "ascontiguousarray", "broadcast_to", "choose", "concatenate", "empty",
    "empty_like", "eye", "frombuffer", "full", "full_like", "hstack", "inf", "nan", "ones", "ones_like", "outer",
    "repeat", "split", "stack", "tri", "tril", "unique", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip
