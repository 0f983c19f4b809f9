"""Arrays as the 32-bit words that engines keep: floats and whole numbers as they are, bytes four to a word."""

import numpy as np


def as_words(array: np.ndarray) -> np.ndarray:
    flat = np.asarray(array).reshape(-1)
    if flat.dtype == np.uint8:
        return np.pad(flat, (0, -flat.size % 4)).view(np.int32)
    return flat.astype(np.float32).view(np.int32) if flat.dtype.kind == "f" else flat.astype(np.int32)


def from_words(words: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A copy, in the dtype that `like` has there and in its shape."""
    if like.dtype == np.uint8:
        return words.view(np.uint8)[: like.size].reshape(like.shape).copy()
    return words.view(np.float32 if like.dtype.kind == "f" else np.int32).reshape(like.shape).copy()
