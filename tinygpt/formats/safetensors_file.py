"""Weights as a safetensors file: our tensor names, the run described in its metadata. No optimizer state."""

from __future__ import annotations

import os

import numpy as np

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.adapter import ADAPTER_KEY, METADATA_KEY
from tinygpt.core.file.front import LARGEST_STEP
from tinygpt.core.file.header import decode_run
from tinygpt.core.file.strict_json import parse_object, whole
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.engines.base import State
from tinygpt.files import faults_of
from tinygpt.formats.checkpoint import Checkpoint, checked_state, describe, weights_alone, with_state
from tinygpt.formats.plain_json import Json, dumps
from tinygpt.formats.tensor_file import open_tensors, write_tensors


def describe_run(checkpoint: Checkpoint) -> Json:
    return {"step": int(checkpoint.state.step), **describe(checkpoint)}


def described_step(description: Json) -> int:
    return whole(description.get("step"), "step", high=LARGEST_STEP)


def save_safetensors(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    with faults_of(path, "write"):
        w = checked_state(weights_alone(checkpoint)).w
        tensors = {
            row.name: w[row.offset : row.offset + row.size].reshape(row.shape)
            for row in parameters(checkpoint.config.model)
        }
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
        file.require_names([row.name for row in rows])
        for row in rows:
            file.require_shape(row.name, row.shape)
        w = np.empty(parameter_count(run.config.model), dtype=np.float32)
        for row in rows:
            w[row.offset : row.offset + row.size] = file.read(row.name).reshape(-1)
        return with_state(run, State(step, w))
