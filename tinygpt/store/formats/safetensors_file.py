"""Weights as a safetensors file: our tensor names, the run described in its metadata. No optimizer state."""

from __future__ import annotations

import os

import numpy as np

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.adapter import ADAPTER_KEY, METADATA_KEY
from tinygpt.core.file.front import LARGEST_STEP
from tinygpt.core.file.header import decode_run
from tinygpt.core.file.strict_json import parse_object, whole
from tinygpt.core.models.memory import TABLES, table_shape
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.disk.files import faults_of
from tinygpt.engines.base import FloatArray, State, Tables
from tinygpt.store.formats.checkpoint import Checkpoint, checked_state, describe, weights_alone, with_state
from tinygpt.store.formats.plain_json import Json, dumps
from tinygpt.store.formats.table_rows import tables_of
from tinygpt.store.formats.tensor_file import TensorFile, open_tensors, write_tensors


def describe_run(checkpoint: Checkpoint) -> Json:
    return {"step": int(checkpoint.state.step), **describe(checkpoint)}


def described_step(description: Json) -> int:
    return whole(description.get("step"), "step", high=LARGEST_STEP)


def save_safetensors(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    with faults_of(path, "write"):
        tensors = named_tensors(checkpoint.config.model, checked_state(weights_alone(checkpoint)))
        write_tensors(path, tensors, {METADATA_KEY: dumps(describe_run(checkpoint))})


def named_tensors(model: ModelConfig, state: State) -> dict[str, FloatArray]:
    """All weights by their names."""
    w = state.w
    tensors = {row.name: w[row.offset : row.offset + row.size].reshape(row.shape) for row in parameters(model)}
    if model.ngram_tables:
        tensors[TABLES] = tables_of(state, model).rows
    return tensors


def read_state(file: TensorFile, model: ModelConfig, step: int, prefix: str = "") -> State:
    """The inverse, of a file whose names begin with `prefix`."""
    rows = parameters(model)
    has_tables = len(model.ngram_tables) > 0
    file.require_names([prefix + name for name in [row.name for row in rows] + [TABLES] * has_tables])
    for row in rows:
        file.require_shape(prefix + row.name, row.shape)
    if has_tables:
        file.require_shape(prefix + TABLES, table_shape(model))
    w = np.empty(parameter_count(model), dtype=np.float32)
    for row in rows:
        w[row.offset : row.offset + row.size] = file.read(prefix + row.name).reshape(-1)
    return State(step, w, tables=Tables(file.read(prefix + TABLES)) if has_tables else None)


def load_safetensors(path: str | os.PathLike[str]) -> Checkpoint:
    with faults_of(path, "read"), open_tensors(path) as file:
        if ADAPTER_KEY in file.metadata:
            raise TinyGPTError(
                "this is an adapter, as `tinygpt lora info` shows: name the model that it is for, and give it with "
                "--adapter"
            )
        if METADATA_KEY not in file.metadata:
            raise TinyGPTError(
                f"its metadata has no '{METADATA_KEY}' entry, so the number of heads is unknown; "
                "only files that TinyGPT exported can be read"
            )
        description = parse_object(file.metadata[METADATA_KEY], "its metadata")
        step = described_step(description)
        run = decode_run(description, step)
        return with_state(run, read_state(file, run.config.model, step))
