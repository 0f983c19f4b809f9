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
from tinygpt.core.file.header import decode_run
from tinygpt.core.file.strict_json import json_object, parse_object, text_of
from tinygpt.core.models.adapters import LORA_A, WEIGHT, adapter_parameters
from tinygpt.core.models.parameters import parameters
from tinygpt.core.optimizers import slot_names
from tinygpt.engines.base import FloatArray, State
from tinygpt.files import faults_of
from tinygpt.formats.checkpoint import Checkpoint, weights_sha256, with_state
from tinygpt.formats.plain_json import dumps
from tinygpt.formats.safetensors_file import ADAPTER_KEY, describe_run, described_step
from tinygpt.formats.tensor_file import open_tensors, write_tensors

LONGEST_TARGETS = 200  # characters; a hostile file's would be searched for the nearest name


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
        return {"name": self.name, "baseSha256": self.base_sha256, **self.lora.as_dict()}


def require_base(adapter: Adapter, model: ModelConfig, weights: FloatArray) -> None:
    """Refuse a model that the adapter was not trained on."""
    made_for = adapter.run.config.model
    if made_for != model:
        raise TinyGPTError(f"the adapter '{adapter.name}' is for {made_for}, but this model is {model}")
    found = weights_sha256(weights)
    if found != adapter.base_sha256:
        raise TinyGPTError(
            f"the adapter '{adapter.name}' was trained on other base weights (sha256 {adapter.base_sha256[:12]}, "
            f"not {found[:12]}); give the model file that it was trained on"
        )


def merged_weights(model: ModelConfig, weights: FloatArray, adapter: Adapter) -> FloatArray:
    """W + B A alpha / rank of every adapted projection, computed in float64 and rounded once; the rest as it is."""
    require_base(adapter, model, weights)
    merged = np.array(weights, dtype=np.float32)
    places = {row.name: row for row in parameters(model)}
    rows, values = adapter_parameters(model, adapter.lora), adapter.run.state.w.astype(np.float64)
    for a, b in zip(rows[::2], rows[1::2], strict=True):
        at = places[a.name.removesuffix(LORA_A) + WEIGHT]
        A, B = (values[row.offset : row.offset + row.size].reshape(row.shape) for row in (a, b))
        part = merged[at.offset : at.offset + at.size].reshape(at.shape)
        part[...] = part + (B @ A) * adapter.lora.scale
    return merged


def merged(base: Checkpoint, adapter: Adapter, told: Checkpoint) -> Checkpoint:
    """The plain model that base and adapter make together, with what is `told` of it: the base's story, or the
    adapter's. Nothing of an optimizer is left."""
    weights = merged_weights(base.config.model, base.state.w, adapter)
    config = RunConfig(base.config.model, told.config.train)
    return replace(told, config=config, state=State(told.state.step, weights), lora=adapter.describe())


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
        description = parse_object(file.metadata[ADAPTER_KEY], "its metadata")
        step = described_step(description)
        run = decode_run(description, step)
        stated = json_object(run.lora, "lora")
        if len(text_of(stated.get("targets"), "lora.targets")) > LONGEST_TARGETS:
            raise TinyGPTError(f"lora.targets has more than {LONGEST_TARGETS} characters")
        lora = LoraConfig(**{field.name: stated.get(field.name) for field in LoraConfig.FIELDS})

        rows = adapter_parameters(run.config.model, lora)
        prefixes = [""]
        slots = slot_names(run.config.train)
        if any(name.startswith(tuple(f"{slot}." for slot in slots)) for name in file.names):
            prefixes += [f"{slot}." for slot in slots]
        file.require_names([prefix + row.name for prefix in prefixes for row in rows])
        for prefix in prefixes:
            for row in rows:
                file.require_shape(prefix + row.name, row.shape)
        w, *kept = [np.concatenate([file.read(prefix + row.name).reshape(-1) for row in rows]) for prefix in prefixes]
        config = RunConfig(run.config.model, run.config.train, lora)
        state = State(step, w, dict(zip(slots, kept, strict=False)))
        return Adapter(
            name=text_of(stated.get("name"), "lora.name"),
            base_sha256=text_of(stated.get("baseSha256"), "lora.baseSha256"),
            run=with_state(run._replace(config=config, lora=None), state),
        )
