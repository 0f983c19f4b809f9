"""A safetensors file seen as named float32 tensors, with every fault as a TinyGPTError."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.adapter import LENGTH_BYTES, require_names, require_shape
from tinygpt.core.file.strict_json import LONGEST_TEXT
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import open_regular
from tinygpt.engines.base import FloatArray
from tinygpt.store.formats.checkpoint import require_finite

DTYPES = ("F32", "F16", "BF16")


class TensorFile:
    def __init__(self, path: Path, handle: Any) -> None:
        self.path = path
        self.handle = handle
        self.names: list[str] = list(handle.keys())
        self.metadata: dict[str, str] = handle.metadata() or {}

    def require_names(self, expected: list[str]) -> None:
        require_names(self.names, expected)

    def require_shape(self, name: str, shape: tuple[int, ...]) -> None:
        view = self.handle.get_slice(name)
        if view.get_dtype() not in DTYPES:
            raise TinyGPTError(f"{name} is {view.get_dtype()}; only {', '.join(DTYPES)} can be read")
        require_shape(name, view.get_shape(), shape)

    def read(self, name: str) -> FloatArray:
        """One tensor, widened to float32."""
        if self.handle.get_slice(name).get_dtype() == "BF16":
            values = self.read_bfloat16(name)
        else:
            values = np.asarray(self.handle.get_tensor(name), dtype=np.float32)
        require_finite(name, values)
        return values

    def read_bfloat16(self, name: str) -> FloatArray:
        """NumPy has no bfloat16: its bits are the upper half of a float32's."""
        if not hasattr(self, "raw"):
            self.raw: dict[str, Any] = dict(deserialize(self.path.read_bytes()))  # type: ignore[no-untyped-call]
        view = self.raw[name]
        halves = np.frombuffer(view["data"], dtype="<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(view["shape"])


@contextmanager
def open_tensors(path: str | os.PathLike[str]) -> Iterator[TensorFile]:
    with open_regular(path) as file:
        header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if header_bytes > LONGEST_TEXT:
        raise TinyGPTError(
            f"this is no sound safetensors file (a header of {header_bytes} bytes; {LONGEST_TEXT} is the most)"
        )
    try:
        with safe_open(path, framework="np") as handle:
            yield TensorFile(Path(path), handle)
    except SafetensorError as fault:
        raise TinyGPTError(f"this is no sound safetensors file ({fault})") from None


def write_tensors(path: str | os.PathLike[str], tensors: dict[str, FloatArray], metadata: dict[str, str]) -> None:
    """Write atomically. The library takes each array's memory as it lies, so it must be contiguous."""
    contiguous = {}
    for name, values in tensors.items():
        contiguous[name] = np.ascontiguousarray(values, dtype="<f4")
        require_finite(name, contiguous[name])
    with replacing(path) as partial:
        try:
            save_file(contiguous, partial, metadata=metadata)
        except SafetensorError as fault:
            raise TinyGPTError(f"cannot write it ({fault})") from None
