"""What can be said about a model file, as plain values that JSON takes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tinygpt.core.file.front import Front
from tinygpt.core.models.parameters import Parameter, parameter_count, parameters
from tinygpt.disk.files import faults_of
from tinygpt.engines.base import FloatArray
from tinygpt.store.formats.checkpoint import Checkpoint
from tinygpt.store.formats.kinds import TINYGPT, kind_of, load_file
from tinygpt.store.formats.plain_json import Json, plain
from tinygpt.store.formats.tinygpt_file import read_tinygpt


def inspect_model(path: str | os.PathLike[str]) -> Json:
    """Describe anything `load_file` takes. A .tinygpt file's wrong checksum or NaN is reported, not raised."""
    place = Path(path)
    with faults_of(place, "read"):
        kind = kind_of(place)
    if kind == TINYGPT:
        checkpoint, front, digest = read_tinygpt(place)
        file_facts = tinygpt_facts(front, digest)
    else:
        checkpoint = load_file(place)
        file_facts = {"has_optimizer": False, "dtype": None}  # tensors may differ in it
    weights = checkpoint.state.w
    result: Json = plain(
        {
            "path": os.fspath(place),
            "format": kind,
            "file_bytes": size_on_disk(place),
            **file_facts,
            **run_facts(checkpoint),
            "tensors": [tensor_facts(row, weights) for row in parameters(checkpoint.config.model)],
        }
    )
    return result


def tinygpt_facts(front: Front, digest: str) -> Json:
    return {
        "version": front.version,
        "dtype": front.dtype,
        "layout": front.header.get("layout"),  # None: a file of the original, read as [in, out]
        "has_optimizer": len(front.slots) > 0,
        "sha256": digest,
        "sha256_ok": front.sha256 == digest if front.sha256 else None,  # None: the file states none
    }


def run_facts(checkpoint: Checkpoint) -> Json:
    progress = checkpoint.progress
    return {
        "config": checkpoint.config.as_dict(),
        "parameter_count": parameter_count(checkpoint.config.model),
        "step": checkpoint.state.step,
        "tokens_seen": progress.tokens_seen,
        "loss": progress.loss,
        "best_val": progress.best_val,
        "best_step": progress.best_step,
        "loss_history": progress.history.points,
        "sample": progress.sample,
        "backend": checkpoint.backend,
        "data": checkpoint.data,
        "saved_at": checkpoint.saved_at,
        "lora": checkpoint.lora,
        "origin": checkpoint.origin,
        "left_out": checkpoint.left_out,
        "edit": checkpoint.edit,
    }


def tensor_facts(row: Parameter, w: FloatArray) -> Json:
    values = w[row.offset : row.offset + row.size]
    finite = bool(np.isfinite(values).all())
    facts: Json = {"name": row.name, "shape": list(row.shape), "finite": finite}
    if finite:
        facts["mean"] = values.mean(dtype=np.float64)
        facts["std"] = values.std(dtype=np.float64)
        facts["min"] = values.min()
        facts["max"] = values.max()
    return facts


def size_on_disk(place: Path) -> int:
    files = [place] if place.is_file() else [file for file in place.iterdir() if file.is_file()]
    return sum(file.stat().st_size for file in files)
