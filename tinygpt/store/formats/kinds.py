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
from tinygpt.store.formats.web_page import START as PAGE_START
from tinygpt.store.formats.web_page import load_web_page, save_web_page

TINYGPT, SAFETENSORS, HUGGINGFACE, GGUF, PAGE = "tinygpt", "safetensors", "huggingface", "gguf", "html"
FORMATS = (TINYGPT, SAFETENSORS, HUGGINGFACE, GGUF, PAGE)
BY_NAME = (TINYGPT, SAFETENSORS, GGUF, PAGE)  # which a file's name ends in
COMPACT = (TINYGPT, GGUF, PAGE)  # which are written in other dtypes than float32


def kind_of(path: Path) -> str:
    """Of a model file, or of a Hugging Face folder."""
    if path.is_dir():
        if (path / CONFIG_FILE).exists():
            return HUGGINGFACE
        raise TinyGPTError(
            f"this folder is neither a run (no checkpoints/) nor a Hugging Face model (no {CONFIG_FILE})"
        )
    with open_regular(path) as file:
        start = file.read(len(PAGE_START))
    magic = start[: len(MAGIC)]
    if magic == MAGIC or path.suffix == ".tinygpt":
        return TINYGPT
    if path.suffix == ".safetensors":
        return SAFETENSORS
    if start == PAGE_START:
        return PAGE
    if magic == GGUF_MAGIC:
        raise TinyGPTError("GGUF is written here, but not read: give the model that it was made from")
    raise TinyGPTError("this is neither a .tinygpt nor a .safetensors file, nor a page with a model in it")


def load_file(path: str | os.PathLike[str]) -> Checkpoint:
    """A .tinygpt file, a .safetensors file, a page of one file, or a Hugging Face folder."""
    with faults_of(path, "read"):
        kind = kind_of(Path(path))
    loads = {TINYGPT: load_tinygpt, SAFETENSORS: load_safetensors, HUGGINGFACE: load_huggingface, PAGE: load_web_page}
    return loads[kind](path)


def save_model(
    target: str | os.PathLike[str],
    checkpoint: Checkpoint,
    *,
    format: str | None = None,
    include_optimizer: bool = True,
    dtype: str | None = None,
    title: str = "",
    prompt: str = "",
) -> str:
    """Write a model and return the format used: as the name ends, else as said. A folder needs "huggingface" said.

    Optimizer state survives only in a .tinygpt file. Such a file, GGUF and a page of one file can be in "float16" or
    "int8"; without a `dtype` it is "float32", of a page "int8". Only a page has a title and a prompt to begin with.
    """
    kind = known_format(target, format, dtype)
    dtype = dtype or usual_dtype(kind)
    if kind == TINYGPT:
        save_tinygpt(target, checkpoint, include_optimizer=include_optimizer, dtype=dtype)
    elif kind == SAFETENSORS:
        save_safetensors(target, checkpoint)
    elif kind == GGUF:
        save_gguf(target, checkpoint, dtype=dtype, name=Path(target).stem)
    elif kind == PAGE:
        save_web_page(target, checkpoint, dtype=dtype, title=title or Path(target).stem, prompt=prompt)
    else:
        save_huggingface(target, checkpoint)
    return kind


def usual_dtype(kind: str) -> str:
    return "int8" if kind == PAGE else "float32"


def known_format(target: str | os.PathLike[str], format: str | None, dtype: str | None = None) -> str:
    """Which it will be, once it is known to take floats of that dtype."""
    if dtype is not None and dtype not in DTYPES:
        raise TinyGPTError(f"there is no dtype '{dtype}' of files; they are {', '.join(DTYPES)}")
    kind = named_format(target, format)
    if kind not in COMPACT and dtype not in (None, "float32"):
        raise TinyGPTError(f"a {kind} file is written in float32 only; .tinygpt, .gguf and .html take {dtype}")
    return kind


def named_format(target: str | os.PathLike[str], format: str | None) -> str:
    if format is not None:
        if format not in FORMATS:
            raise TinyGPTError(f"there is no format '{format}'; the formats are {', '.join(FORMATS)}")
        return format
    suffix = Path(target).suffix
    if suffix[1:] not in BY_NAME:
        raise TinyGPTError(
            f"{os.fspath(target)}: the name does not tell the format; end it in .tinygpt, .safetensors, .gguf or "
            f".html, or ask for the format '{HUGGINGFACE}' to write a folder"
        )
    return suffix[1:]
