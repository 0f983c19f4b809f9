"""Kinds of model files, told by what is there and by how a name ends."""

from __future__ import annotations

import os
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import MAGIC
from tinygpt.core.file.header import DTYPES
from tinygpt.files import faults_of, open_regular
from tinygpt.formats.checkpoint import Checkpoint
from tinygpt.formats.huggingface import CONFIG_FILE, load_huggingface, save_huggingface
from tinygpt.formats.safetensors_file import load_safetensors, save_safetensors
from tinygpt.formats.tinygpt_file import load_tinygpt, save_tinygpt

TINYGPT, SAFETENSORS, HUGGINGFACE = "tinygpt", "safetensors", "huggingface"
FORMATS = (TINYGPT, SAFETENSORS, HUGGINGFACE)


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

    Optimizer state survives only in a .tinygpt file, and only such a file is written in "float16" or "int8".
    """
    kind = known_format(target, format, dtype)
    if kind == TINYGPT:
        save_tinygpt(target, checkpoint, include_optimizer=include_optimizer, dtype=dtype)
    elif kind == SAFETENSORS:
        save_safetensors(target, checkpoint)
    else:
        save_huggingface(target, checkpoint)
    return kind


def known_format(target: str | os.PathLike[str], format: str | None, dtype: str = "float32") -> str:
    """Which it will be, once it is known to take floats of that dtype."""
    if dtype not in DTYPES:
        raise TinyGPTError(f"there is no dtype '{dtype}' of files; they are {', '.join(DTYPES)}")
    kind = named_format(target, format)
    if kind != TINYGPT and dtype != "float32":
        raise TinyGPTError(f"a {kind} file is written in float32 only; .tinygpt takes {dtype}")
    return kind


def named_format(target: str | os.PathLike[str], format: str | None) -> str:
    if format is not None:
        if format not in FORMATS:
            raise TinyGPTError(f"there is no format '{format}'; the formats are {', '.join(FORMATS)}")
        return format
    suffix = Path(target).suffix
    if suffix not in (".tinygpt", ".safetensors"):
        raise TinyGPTError(
            f"{os.fspath(target)}: the name does not tell the format; end it in .tinygpt or .safetensors, "
            f"or ask for the format '{HUGGINGFACE}' to write a folder"
        )
    return suffix[1:]
