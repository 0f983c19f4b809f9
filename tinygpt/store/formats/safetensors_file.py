"""Weights as a safetensors file: our tensor names, the run described in its metadata. No optimizer state."""

from __future__ import annotations

import os

import numpy as np

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.adapter import ADAPTER_KEY, METADATA_KEY
from tinygpt.core.file.front import LARGEST_STEP
from tinygpt.core.file.header import decode_run
from tinygpt.core.file.strict_json import parse_object, whole
from tinygpt.core.models.memory import TABLES, table_shape
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.disk.files import faults_of
from tinygpt.engines.base import State, Tables
from tinygpt.store.formats.checkpoint import Checkpoint, checked_state, describe, weights_alone, with_state
from tinygpt.store.formats.plain_json import Json, dumps
from tinygpt.store.formats.table_rows import tables_of
from tinygpt.store.formats.tensor_file import open_tensors, write_tensors


def describe_run(checkpoint: Checkpoint) -> Json:
    return {"step": int(checkpoint.state.step), **describe(checkpoint)}


def described_step(description: Json) -> int:
    return whole(description.get("step"), "step", high=LARGEST_STEP)


def save_safetensors(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    with faults_of(path, "write"):
        state, model = checked_state(weights_alone(checkpoint)), checkpoint.config.model
        w = state.w
        tensors = {row.name: w[row.offset : row.offset + row.size].reshape(row.shape) for row in parameters(model)}
        if model.ngram_tables:
            tensors[TABLES] = tables_of(state, model).rows
        write_tensors(path, tensors, {METADATA_KEY: dumps(describe_run(checkpoint))})


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
        rows = parameters(run.config.model)
        has_tables = len(run.config.model.ngram_tables) > 0
        file.require_names([row.name for row in rows] + [TABLES] * has_tables)
        for row in rows:
            file.require_shape(row.name, row.shape)
        if has_tables:
            file.require_shape(TABLES, table_shape(run.config.model))
        w = np.empty(parameter_count(run.config.model), dtype=np.float32)
        for row in rows:
            w[row.offset : row.offset + row.size] = file.read(row.name).reshape(-1)
        return with_state(run, State(step, w, tables=Tables(file.read(TABLES)) if has_tables else None))
