"""LoRA in PyTorch: small trained matrices beside a frozen model. Each adapted projection x Wᵀ + b becomes

x Wᵀ + b + (x Aᵀ) Bᵀ · alpha / rank        A [rank, in], B [out, rank]
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import adapter_parameters
from tinygpt.core.models.parameters import parameters
from tinygpt.core.names import is_linear_weight
from tinygpt.engines.base import Base, FloatArray, State, Tables
from tinygpt.kernels.init import initial_values
from tinygpt.reference.model import ByteModel, copy_flat, load_tables, make_model
from tinygpt.store.formats.adapter_file import Adapter, require_base


def adapted_model(config: RunConfig, base: Base | None) -> ByteModel:
    """The model with the weights `base`, frozen, and untrained adapters."""
    if base is None or config.lora is None:
        raise TinyGPTError("adapters stand on weights that are given; this is a bug")
    given = base if isinstance(base, State) else State(0, base)
    model = make_model(config.model, given.w)
    if config.model.ngram_tables:
        load_tables(model.get_parameter("tables"), given.tables)
    install(model, config.lora, initial_values(config))
    return model


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


def set_adapter(model: ByteModel, adapter: Adapter | None) -> None:
    """Exchange the model's adapters (None: take them off) while the base stays where it is, untouched.

    Not for a model whose adapters an engine trains: give that engine a state.
    """
    if adapter is None:
        remove(model)
        return
    tables = Tables(model.get_parameter("tables").detach().cpu().numpy()) if model.config.ngram_tables else None
    require_base(adapter, model.config, State(0, base_weights(model), tables=tables))
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


def base_weights(model: ByteModel) -> FloatArray:
    """In `core.parameters` order; the same while merged."""
    originals = {f"{name}.weight": layer.original for name, layer in adapted(model)}
    parts = []
    for row, tensor in zip(parameters(model.config), model.ordered(), strict=True):
        original = originals.get(row.name)
        parts.append((tensor if original is None else original).detach().cpu().numpy().reshape(-1))
    return np.concatenate(parts)
