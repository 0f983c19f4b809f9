"""A case's op and arrays as WGSL kernels take them: gradients in slices, NaN behind every tensor."""

from typing import Any

import numpy as np
from words import as_words, from_words

from tinygpt.core.ops.gpu import SLICE_LINE
from tinygpt.core.ops.op import KERNELS, Op, Tensor, float_bits

GUARD = 64  # floats behind every tensor
GUARD_BITS = 0x7FA5A5A5  # a NaN: it spoils what reads it, and shows what writes it


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


def is_gradient(kernel: str, name: str) -> bool:
    return name == "grads" or (name in KERNELS[kernel].updated and name.startswith("d"))


def op_and_arrays(kernel: str, case: dict[str, Any], slices: int) -> tuple[Op, dict[str, np.ndarray]]:
    """The case's call, and what lies in the buffer of each tensor before it."""
    signature = KERNELS[kernel]
    names = signature.tensors
    tensors: dict[str, Tensor | None] = {}
    stored: dict[str, np.ndarray] = {}
    for name in names:
        if case[name] is None:
            tensors[name] = None
            continue
        array = np.asarray(case[name])
        kind = "grad" if is_gradient(kernel, name) else "temp"
        tensors[name] = Tensor(name, array.shape, kind, signature.dtypes.get(name, "f32"))
        stored[name] = sliced(array, slices) if is_gradient(kernel, name) else array
    scalars = [float_bits(case[name]) for name in signature.scalars]
    return Op(kernel, [tensors[name] for name in names], [case[name] for name in signature.dims], scalars), stored


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
        is_sliced = is_gradient(kernel, name)
        outputs[name] = unsliced(raw.view(np.float32), slices, like) if is_sliced else from_words(raw, like)
    return outputs
