"""A case's arrays as WGSL kernels take them: gradients in slices, NaN behind every tensor."""

from typing import Any

import numpy as np
from cases import is_gradient
from words import GUARD_BITS, as_words, from_words, is_apart, places_of, spread

from tinygpt.core.ops.gpu import SLICE_LINE
from tinygpt.core.ops.op import KERNELS

GUARD = 64  # floats behind every tensor


def sliced(array: np.ndarray, slices: int) -> np.ndarray:
    """A gradient as the GPU keeps it: what is there to begin with is in the first slice, the others are zero.

    NaN, where it must be overwritten, is in all of them; the padding behind the tensor is zero.
    """
    lines = -(-array.size // SLICE_LINE)
    flat = np.zeros((lines, slices, SLICE_LINE), np.float32)
    first = np.zeros(lines * SLICE_LINE, np.float32)
    first[: array.size] = array.reshape(-1)
    flat[:, 0] = first.reshape(lines, SLICE_LINE)
    flat[:, 1:] = np.where(np.isnan(flat[:, :1]), np.nan, 0)
    return flat


def unsliced(flat: np.ndarray, slices: int, like: np.ndarray) -> np.ndarray:
    whole = flat.reshape(-1, slices, SLICE_LINE).astype(np.float64).sum(axis=1).reshape(-1)
    return whole[: like.size].reshape(like.shape)


def stored_arrays(kernel: str, case: dict[str, Any], slices: int) -> dict[str, np.ndarray]:
    """What lies in the buffer of each of the case's tensors before its call."""
    arrays = {name: np.asarray(case[name]) for name in KERNELS[kernel].tensors if case[name] is not None}
    for name, array in arrays.items():
        if is_gradient(kernel, name):
            arrays[name] = sliced(array, slices)
        elif is_apart(array):
            arrays[name] = spread(array)
    return arrays


def outputs_of(
    kernel: str, case: dict[str, Any], stored: dict[str, np.ndarray], after: dict[str, np.ndarray], slices: int
) -> dict[str, Any]:
    """The call's outputs by name, from what lies in each buffer after it, as int32; its inputs must be untouched."""
    outputs = {}
    signature = KERNELS[kernel]
    for name in signature.tensors:
        if case[name] is None:
            continue
        raw = after[name]
        if name in signature.inputs:
            assert raw.tobytes() == as_words(stored[name]).tobytes(), f"{kernel} wrote to {name}"
            continue
        like = np.asarray(case[name])
        if is_apart(like):
            between = np.delete(raw, places_of(like))
            assert (between == GUARD_BITS).all(), f"{kernel} wrote between the rows of {name}"
            raw = raw[places_of(like)]
        is_sliced = is_gradient(kernel, name)
        outputs[name] = unsliced(raw.view(np.float32), slices, like) if is_sliced else from_words(raw, like)
    return outputs
