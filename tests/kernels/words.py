"""Arrays as the 32-bit words that engines keep: floats and whole numbers as they are, bytes four to a word.

A slice of a wider array's columns stands for a tensor whose rows lie apart.
"""

import numpy as np

from tinygpt.core.ops.op import Tensor

GUARD_BITS = 0x7FA5A5A5  # a NaN: it spoils what reads it, and shows what writes it


def as_words(array: np.ndarray) -> np.ndarray:
    flat = np.asarray(array).reshape(-1)
    if flat.itemsize < 4:
        return np.pad(flat, (0, -flat.size % (4 // flat.itemsize))).view(np.int32)
    return flat.astype(np.float32).view(np.int32) if flat.dtype.kind == "f" else flat.astype(np.int32)


def apart(array: np.ndarray, pitch: int, offset: int) -> np.ndarray:
    """A copy of a matrix as columns of a wider one, with NaN on either side."""
    wide = np.full((len(array), pitch), np.nan, array.dtype)
    wide[:, offset : offset + array.shape[1]] = array
    return wide[:, offset : offset + array.shape[1]]


def is_apart(array: np.ndarray) -> bool:
    return array.ndim == 2 and array.strides[0] > array.strides[1] * array.shape[1] > 0


def tensor_of(name: str, array: np.ndarray, kind: str = "temp", dtype: str = "f32") -> Tensor:
    if not is_apart(array):
        return Tensor(name, array.shape, kind, dtype)
    first = (array.ctypes.data - array.base.ctypes.data) // array.itemsize
    return Tensor(name, array.base.shape, kind, dtype).columns(first, array.shape[1])


def places_of(array: np.ndarray) -> np.ndarray:
    """Where its words lie, from where the tensor, or that which it is a slice of, begins."""
    if not is_apart(array):
        return np.arange(as_words(array).size)
    view = tensor_of("", array)
    return np.add.outer(view.pitch * np.arange(len(array)), view.start + np.arange(array.shape[1])).reshape(-1)


def spread(array: np.ndarray) -> np.ndarray:
    """Its words at their places, guards between them."""
    places = places_of(array)
    words = np.full(places[-1] + 1 if places.size else 0, GUARD_BITS, np.int32)
    words[places] = as_words(array)
    return words


def from_words(words: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A copy, in the dtype that `like` has there and in its shape."""
    if like.itemsize == 1:
        return words.view(like.dtype)[: like.size].reshape(like.shape).copy()
    return words.view(np.float32 if like.dtype.kind == "f" else np.int32).reshape(like.shape).copy()
