"""LoRA: small trained matrices beside a frozen model. Each adapted projection x Wᵀ + b becomes

    x Wᵀ + b + (x Aᵀ) Bᵀ · alpha / rank        A [rank, in], B [out, rank]

A starts normal, B starts at zero, so before its first step an adapted model is the base, to the bit.
An adapter belongs to the base it was trained on: files state the SHA-256 of the base's weights.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinygpt.core.config import PROJECTIONS, LoraConfig, ModelConfig, RunConfig, SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import decode_run
from tinygpt.core.file.strict_json import json_object, parse_object, text_of
from tinygpt.core.models.parameters import Parameter, is_linear_weight, parameters
from tinygpt.core.optimizers import slot_names
from tinygpt.core.rng import LORA_INIT
from tinygpt.core.run.sampler import generate
from tinygpt.engines.base import FloatArray, State
from tinygpt.evaluation import evaluate
from tinygpt.files import faults_of
from tinygpt.formats.checkpoint import Checkpoint, with_state
from tinygpt.formats.plain_json import dumps
from tinygpt.formats.safetensors_file import ADAPTER_KEY, describe_run, described_step
from tinygpt.formats.tensor_file import open_tensors, write_tensors
from tinygpt.kernels.init import normal_draws
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.model import ByteModel, copy_flat, make_model

LONGEST_TARGETS = 200  # characters; a hostile file's would be searched for the nearest name


def adapter_parameters(model: ModelConfig, lora: LoraConfig) -> list[Parameter]:
    """The trained tensors in the order of every flat vector: `core.parameters` order, A before B."""
    require_targets(model, lora)
    rows = []
    offset = 0
    for base in parameters(model):
        projection = base.name.removesuffix(".weight")
        if not is_linear_weight(base.name) or projection.split(".")[-1] not in lora.target_list:
            continue
        outputs, inputs = base.shape
        # Normalised inputs have variance 1; with this deviation so has x Aᵀ.
        for name, shape, std in (
            ("lora_A", (lora.rank, inputs), 1 / math.sqrt(inputs)),
            ("lora_B", (outputs, lora.rank), 0.0),
        ):
            size = shape[0] * shape[1]
            rows.append(Parameter(f"{projection}.{name}", shape, offset, size, std, 0.0, True))
            offset += size
    return rows


def require_targets(model: ModelConfig, lora: LoraConfig) -> None:
    there = {row.name.split(".")[-2] for row in parameters(model) if is_linear_weight(row.name)}
    missing = [name for name in lora.target_list if name not in there]
    if missing:
        raise TinyGPTError(
            f"this model has no {', '.join(missing)} to adapt; "
            f"it has {', '.join(name for name in PROJECTIONS if name in there) or 'nothing that can be'}"
        )


def initial_adapter(model: ModelConfig, lora: LoraConfig, seed: int) -> FloatArray:
    return np.concatenate(
        [
            normal_draws(seed, LORA_INIT, index, row.size, row.std) if row.std else np.zeros(row.size, dtype=np.float32)
            for index, row in enumerate(adapter_parameters(model, lora))
        ]
    )


class LoraLinear(nn.Module):
    """A projection with an adapter. It holds the very W and b of the nn.Linear it replaces, under their names."""

    def __init__(self, base: nn.Linear, lora: LoraConfig) -> None:
        super().__init__()
        self.weight, self.bias = base.weight, base.bias
        outputs, inputs = base.weight.shape
        self.lora_A = nn.Parameter(base.weight.data.new_zeros(lora.rank, inputs))
        self.lora_B = nn.Parameter(base.weight.data.new_zeros(outputs, lora.rank))
        self.scale = lora.scale
        self.original: Tensor | None = None  # a copy of W, while W is merged

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        if self.original is not None:
            return y
        return y + F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scale

    def plain(self) -> nn.Linear:
        outputs, inputs = self.weight.shape
        linear = nn.Linear(inputs, outputs, device="meta")
        linear.weight, linear.bias = self.weight, self.bias
        return linear


def adapted(model: ByteModel) -> list[tuple[str, LoraLinear]]:
    """The adapted projections by name, in `core.parameters` order."""
    names = [row.name.removesuffix(".weight") for row in parameters(model.config) if is_linear_weight(row.name)]
    layers = [(name, model.get_submodule(name)) for name in names]
    return [(name, layer) for name, layer in layers if isinstance(layer, LoraLinear)]


def lora_parameters(model: ByteModel) -> list[nn.Parameter]:
    """The trained tensors, in `adapter_parameters` order; none for a plain model."""
    return [tensor for _, layer in adapted(model) for tensor in (layer.lora_A, layer.lora_B)]


def apply_lora(model: ByteModel, lora: LoraConfig, seed: int) -> None:
    """Freeze the model and give it untrained adapters in place of those it has."""
    install(model, lora, initial_adapter(model.config, lora, seed))


def set_adapter(model: ByteModel, adapter: Adapter | None) -> None:
    """Exchange the model's adapters (None: take them off) while the base stays where it is, untouched.

    Not for the model of a LoraEngine, whose optimizer holds the tensors: give that engine a state.
    """
    if adapter is None:
        remove(model)
        return
    require_base(model, adapter)
    install(model, adapter.lora, adapter.run.state.w)


def install(model: ByteModel, lora: LoraConfig, w: FloatArray) -> None:
    remove(model)
    model.requires_grad_(False)
    for row in adapter_parameters(model.config, lora)[::2]:
        name = row.name.removesuffix(".lora_A")
        base = model.get_submodule(name)
        assert isinstance(base, nn.Linear)
        put(model, name, LoraLinear(base, lora))
    copy_flat(w, lora_parameters(model))


def remove(model: ByteModel) -> None:
    """Take all adapters off: the base again, to the bit, and trainable."""
    unmerge(model)
    for name, layer in adapted(model):
        put(model, name, layer.plain())
    model.requires_grad_(True)


def put(model: ByteModel, name: str, module: nn.Module) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, module)


def merge(model: ByteModel) -> None:
    """W := W + B A · alpha / rank in every adapted projection; `model.flat()` is then a plain model's weights.

    Computed in float64 on the CPU and rounded once, whatever device and precision the model runs in.
    """
    with torch.no_grad():
        for _, layer in adapted(model):
            if layer.original is None:
                a, b, w = (tensor.cpu().double() for tensor in (layer.lora_A, layer.lora_B, layer.weight))
                layer.original = layer.weight.detach().clone()
                layer.weight.copy_(w + (b @ a) * layer.scale)


def unmerge(model: ByteModel) -> None:
    """Put the kept weights back. (Subtracting B A again would leave rounding behind.)"""
    with torch.no_grad():
        for _, layer in adapted(model):
            if layer.original is not None:
                layer.weight.copy_(layer.original)
                layer.original = None


def base_sha256(model: ByteModel) -> str:
    """Of the base's weights as little-endian float32, in `core.parameters` order; the same while merged."""
    originals = {f"{name}.weight": layer.original for name, layer in adapted(model)}
    digest = hashlib.sha256()
    for row, tensor in zip(parameters(model.config), model.ordered(), strict=True):
        original = originals.get(row.name)
        values = (tensor if original is None else original).detach().cpu().numpy()
        digest.update(np.ascontiguousarray(values, dtype="<f4").data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Adapter:
    """Trained adapters and where they come from.

    `run.state` holds the adapters' values and slots in `adapter_parameters` order, `run.config.model`
    is the base, and the rest of `run` is about the training of the adapters.
    """

    name: str
    lora: LoraConfig
    base_sha256: str
    run: Checkpoint

    def describe(self) -> dict[str, Any]:
        """Plain values for a file's header: also what a merged model's `Checkpoint.lora` should say."""
        return {"name": self.name, "baseSha256": self.base_sha256, **self.lora.as_dict()}


def require_base(model: ByteModel, adapter: Adapter) -> None:
    made_for = adapter.run.config.model
    if made_for != model.config:
        raise TinyGPTError(f"the adapter '{adapter.name}' is for {made_for}, but this model is {model.config}")
    found = base_sha256(model)
    if found != adapter.base_sha256:
        raise TinyGPTError(
            f"the adapter '{adapter.name}' was trained on other base weights (sha256 {adapter.base_sha256[:12]}, "
            f"not {found[:12]}); give the model file that it was trained on"
        )


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
        return Adapter(
            name=text_of(stated.get("name"), "lora.name"),
            lora=lora,
            base_sha256=text_of(stated.get("baseSha256"), "lora.baseSha256"),
            run=with_state(run._replace(lora=None), State(step, w, dict(zip(slots, kept, strict=False)))),
        )


class LoraEngine(TorchEngine):
    """Trains adapters on the model with the weights `base`, which it never changes.

    Its State is of the adapters alone, in `adapter_parameters` order. Whoever resumes a run gives
    the same base again; `base_sha256` lets him check.
    """

    name = "torch-lora"

    def __init__(self, config: RunConfig, base: FloatArray, lora: LoraConfig, **options: Any) -> None:
        model = make_model(config.model, base)
        self.lora = lora
        self.base_sha256 = base_sha256(model)
        apply_lora(model, lora, config.train.seed)
        super().__init__(config, model=model, trained=adapter_parameters(config.model, lora), **options)

    def describe(self) -> str:
        count = sum(tensor.numel() for tensor in self.trained)
        return f"{super().describe()}; LoRA of rank {self.lora.rank} on {self.lora.targets}, {count:,} parameters"


class Measured(NamedTuple):
    loss: float  # mean cross-entropy a byte, in nats
    sample: bytes


async def measure(engine: TorchEngine, text: bytes, prompt: bytes, settings: SampleConfig) -> Measured:
    """The loss of the engine's model over `text`, and what it writes after `prompt`."""
    loss = (await evaluate(engine, text)).loss
    return Measured(loss, await generate(engine, engine.config.model.ctx, prompt, settings))


async def compare(
    engine: TorchEngine, adapter: Adapter, text: bytes, prompt: bytes, settings: SampleConfig
) -> tuple[Measured, Measured]:
    """The base and the adapted model, side by side: the same text, prompt and draws. The adapter stays on."""
    set_adapter(engine.model, None)
    base = await measure(engine, text, prompt, settings)
    set_adapter(engine.model, adapter)
    return base, await measure(engine, text, prompt, settings)
