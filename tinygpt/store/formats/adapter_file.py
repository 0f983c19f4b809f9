"""Adapters (LoRA) alone, as a small safetensors file, and what they make of the model they stand on.

An adapter belongs to the weights that it was trained on: a file states their SHA-256.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinygpt.core.config import LoraConfig, ModelConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file import adapter as spelling
from tinygpt.core.file.adapter import ADAPTER_KEY
from tinygpt.core.models.adapters import adapter_parameters, merges
from tinygpt.disk.files import faults_of
from tinygpt.engines.base import FloatArray, State, Tables
from tinygpt.store.formats.checkpoint import Checkpoint, state_sha256, with_state
from tinygpt.store.formats.plain_json import dumps
from tinygpt.store.formats.safetensors_file import describe_run
from tinygpt.store.formats.tensor_file import open_tensors, write_tensors


@dataclass(frozen=True, eq=False)
class Adapter:
    """Trained adapters and where they come from.

    `run.state` holds their values and slots in `adapter_parameters` order, `run.config` says which model and which of
    its projections they are for, and the rest of `run` is about their training.
    """

    name: str
    base_sha256: str
    run: Checkpoint

    @property
    def lora(self) -> LoraConfig:
        lora = self.run.config.lora
        assert lora is not None
        return lora

    def describe(self) -> dict[str, Any]:
        """Plain values for a file's header: also what a merged model's `Checkpoint.lora` says."""
        return spelling.encode_lora(self.name, self.base_sha256, self.lora)


def require_base(adapter: Adapter, model: ModelConfig, base: State) -> None:
    """Refuse a model that the adapter was not trained on."""
    made_for = adapter.run.config.model
    spelling.require_base(adapter.name, made_for, adapter.base_sha256, model, state_sha256(base))


def merged_weights(model: ModelConfig, base: State, adapter: Adapter) -> FloatArray:
    """W + B A alpha / rank of every adapted projection, computed in float64 and rounded once; the rest as it is."""
    require_base(adapter, model, base)
    merged = np.array(base.w, dtype=np.float32)
    values = adapter.run.state.w.astype(np.float64)
    for at, a, b in merges(model, adapter.lora):
        A, B = (values[row.offset : row.offset + row.size].reshape(row.shape) for row in (a, b))
        part = merged[at.offset : at.offset + at.size].reshape(at.shape)
        part[...] = part + (B @ A) * adapter.lora.scale
    return merged


def merged(base: Checkpoint, adapter: Adapter, told: Checkpoint) -> Checkpoint:
    """The plain model that base and adapter make together, with what is `told` of it: the base's story, or the
    adapter's. Nothing of an optimizer is left."""
    weights, tables = merged_weights(base.config.model, base.state, adapter), base.state.tables
    state = State(told.state.step, weights, tables=None if tables is None else Tables(tables.rows))
    config = RunConfig(base.config.model, told.config.train)
    return replace(told, config=config, state=state, lora=adapter.describe())


def save_adapter(path: str | os.PathLike[str], adapter: Adapter, *, include_optimizer: bool = False) -> None:
    """Write a safetensors file, atomically. To resume the run from it, include optimizer and loss history."""
    with faults_of(path, "write"):
        state = adapter.run.state
        vectors = {"": state.w} | {f"{name}.": state.slots[name] for name in state.slots if include_optimizer}
        rows = adapter_parameters(adapter.run.config.model, adapter.lora)
        tensors = {
            prefix + row.name: vector[row.offset : row.offset + row.size].reshape(row.shape)
            for prefix, vector in vectors.items()
            for row in rows
        }
        description = describe_run(replace(adapter.run, lora=adapter.describe()))
        if not include_optimizer:
            del description["lossHistory"]  # it may outweigh a small adapter
        write_tensors(path, tensors, {ADAPTER_KEY: dumps(description)})


def load_adapter(path: str | os.PathLike[str]) -> Adapter:
    with faults_of(path, "read"), open_tensors(path) as file:
        if ADAPTER_KEY not in file.metadata:
            raise TinyGPTError(f"this is no adapter: its metadata has no '{ADAPTER_KEY}' entry")
        told = spelling.decode_adapter(file.metadata[ADAPTER_KEY])
        config = told.run.config
        assert config.lora is not None
        slots = spelling.slots_in(file.names, config)
        rows = adapter_parameters(config.model, config.lora)
        names = [spelling.tensor_names(row, slots) for row in rows]
        file.require_names([name for of_row in names for name in of_row])
        for row, of_row in zip(rows, names, strict=True):
            for name in of_row:
                file.require_shape(name, row.shape)
        w, *kept = [
            np.concatenate([file.read(name).reshape(-1) for name in vector]) for vector in zip(*names, strict=True)
        ]
        state = State(told.run.progress.step, w, dict(zip(slots, kept, strict=True)))
        return Adapter(told.name, told.base_sha256, with_state(told.run, state))
