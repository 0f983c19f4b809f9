"""From any kind of model file or folder to any other."""

from __future__ import annotations

import os
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import MAGIC
from tinygpt.files import faults_of, open_regular
from tinygpt.formats.checkpoint import Checkpoint
from tinygpt.formats.huggingface import CONFIG_FILE, load_huggingface, save_huggingface
from tinygpt.formats.safetensors_file import load_safetensors, save_safetensors
from tinygpt.formats.tinygpt_file import load_tinygpt, save_tinygpt

TINYGPT, SAFETENSORS, HUGGINGFACE = "tinygpt", "safetensors", "huggingface"
FORMATS = (TINYGPT, SAFETENSORS, HUGGINGFACE)
WHICH = ("best", "last")


def locate(path: str | os.PathLike[str], which: str = "best") -> tuple[str, Path]:
    """What kind of model `path` is, and the file or folder that holds it."""
    if which not in WHICH:
        raise TinyGPTError(f"which must be one of {', '.join(WHICH)}, not '{which}'")
    place = Path(path)
    with faults_of(path, "read"):
        if place.is_dir():
            return locate_in_folder(place, which)
        with open_regular(place) as file:
            magic = file.read(len(MAGIC))
        if magic == MAGIC or place.suffix == ".tinygpt":
            return TINYGPT, place
        if place.suffix == ".safetensors":
            return SAFETENSORS, place
        raise TinyGPTError("this is neither a .tinygpt nor a .safetensors file")


def locate_in_folder(folder: Path, which: str) -> tuple[str, Path]:
    checkpoints = folder / "checkpoints"
    if checkpoints.is_dir():
        # The best weights so far may be the last; the last state, which a resume wants, is never another's.
        for name in ("best", "last") if which == "best" else ("last",):
            if (checkpoints / f"{name}.tinygpt").exists():
                return TINYGPT, checkpoints / f"{name}.tinygpt"
        raise TinyGPTError(f"this run has no checkpoint yet (no checkpoints/{which}.tinygpt)")
    if (folder / CONFIG_FILE).exists():
        return HUGGINGFACE, folder
    raise TinyGPTError(f"this folder is neither a run (no checkpoints/) nor a Hugging Face model (no {CONFIG_FILE})")


def load_model(path: str | os.PathLike[str], which: str = "best") -> Checkpoint:
    """Load a .tinygpt file, a .safetensors file, a Hugging Face folder, or a run folder's best or last checkpoint."""
    kind, place = locate(path, which)
    load = {TINYGPT: load_tinygpt, SAFETENSORS: load_safetensors, HUGGINGFACE: load_huggingface}[kind]
    return load(place)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    which: str = "best",
    include_optimizer: bool = True,
) -> str:
    """Write `source` as `target` and return the format used.

    Optimizer state survives only from .tinygpt to .tinygpt.
    """
    kind = known_format(target, format)
    return save_model(target, load_model(source, which), format=kind, include_optimizer=include_optimizer)


def save_model(
    target: str | os.PathLike[str], checkpoint: Checkpoint, *, format: str | None = None, include_optimizer: bool = True
) -> str:
    """Write a model and return the format used: as the name ends, else as said. A folder needs "huggingface" said."""
    kind = known_format(target, format)
    if kind == TINYGPT:
        save_tinygpt(target, checkpoint, include_optimizer=include_optimizer)
    elif kind == SAFETENSORS:
        save_safetensors(target, checkpoint)
    else:
        save_huggingface(target, checkpoint)
    return kind


def known_format(target: str | os.PathLike[str], format: str | None) -> str:
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
