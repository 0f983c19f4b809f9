"""Kinds of model files, told by what is there and by how a name ends."""

from __future__ import annotations

import os
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import MAGIC
from tinygpt.core.file.header import DTYPES
from tinygpt.disk.files import faults_of, open_regular
from tinygpt.store.formats.checkpoint import Checkpoint
from tinygpt.store.formats.gguf_file import MAGIC as GGUF_MAGIC
from tinygpt.store.formats.gguf_file import save_gguf
from tinygpt.store.formats.huggingface import CONFIG_FILE, load_huggingface, save_huggingface
from tinygpt.store.formats.safetensors_file import load_safetensors, save_safetensors
from tinygpt.store.formats.tinygpt_file import load_tinygpt, save_tinygpt

TINYGPT, SAFETENSORS, HUGGINGFACE, GGUF = "tinygpt", "safetensors", "huggingface", "gguf"
FORMATS = (TINYGPT, SAFETENSORS, HUGGINGFACE, GGUF)
BY_NAME = (TINYGPT, SAFETENSORS, GGUF)  # which a file's name ends in
COMPACT = (TINYGPT, GGUF)  # which are written in other dtypes than float32


def kind_of(path: Path) -> str:
    """Of a model file, or of a Hugging Face folder."""
    if path.is_dir():
        if (path / CONFIG_FILE).exists():
            return HUGGINGFACE
        raise TinyGPTError(
            f"this folder is neither a run (no checkpoints/) nor a Hugging Face model (no {CONFIG_FILE})"
        )
    with open_regular(path) as file:
        magic = file.read(len(MAGIC))
    if magic == MAGIC or path.suffix == ".tinygpt":
        return TINYGPT
    if path.suffix == ".safetensors":
        return SAFETENSORS
    if magic == GGUF_MAGIC:
        raise TinyGPTError("GGUF is written here, but not read: give the model that it was made from")
    raise TinyGPTError("this is neither a .tinygpt nor a .safetensors file")


def load_file(path: str | os.PathLike[str]) -> Checkpoint:
    """A .tinygpt file, a .safetensors file, or a Hugging Face folder."""
    with faults_of(path, "read"):
        kind = kind_of(Path(path))
    load = {TINYGPT: load_tinygpt, SAFETENSORS: load_safetensors, HUGGINGFACE: load_huggingface}[kind]
    return load(path)


def save_model(
    target: str | os.PathLike[str],
    checkpoint: Checkpoint,
    *,
    format: str | None = None,
    include_optimizer: bool = True,
    dtype: str = "float32",
) -> str:
    """Write a model and return the format used: as the name ends, else as said. A folder needs "huggingface" said.

    Optimizer state survives only in a .tinygpt file, and only such a file and GGUF are written in "float16" or "int8".
    """
    kind = known_format(target, format, dtype)
    if kind == TINYGPT:
        save_tinygpt(target, checkpoint, include_optimizer=include_optimizer, dtype=dtype)
    elif kind == SAFETENSORS:
        save_safetensors(target, checkpoint)
    elif kind == GGUF:
        save_gguf(target, checkpoint, dtype=dtype, name=Path(target).stem)
    else:
        save_huggingface(target, checkpoint)
    return kind


def known_format(target: str | os.PathLike[str], format: str | None, dtype: str = "float32") -> str:
    """Which it will be, once it is known to take floats of that dtype."""
    if dtype not in DTYPES:
        raise TinyGPTError(f"there is no dtype '{dtype}' of files; they are {', '.join(DTYPES)}")
    kind = named_format(target, format)
    if kind not in COMPACT and dtype != "float32":
        raise TinyGPTError(f"a {kind} file is written in float32 only; .tinygpt and .gguf take {dtype}")
    return kind


def named_format(target: str | os.PathLike[str], format: str | None) -> str:
    if format is not None:
        if format not in FORMATS:
            raise TinyGPTError(f"there is no format '{format}'; the formats are {', '.join(FORMATS)}")
        return format
    suffix = Path(target).suffix
    if suffix[1:] not in BY_NAME:
        raise TinyGPTError(
            f"{os.fspath(target)}: the name does not tell the format; end it in .tinygpt, .safetensors or .gguf, "
            f"or ask for the format '{HUGGINGFACE}' to write a folder"
        )
    return suffix[1:]
