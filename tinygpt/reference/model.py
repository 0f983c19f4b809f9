"""The model in PyTorch with values: from a flat vector of weights to the loss. Autograd derives the backward pass.

Every other engine derives it by hand; `modules.py` and this file are what they are held against. With the engines these
share the parameter list of `core.parameters` and the start values, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.engines.base import Tables
from tinygpt.reference import modules

FlatArray = npt.NDArray[Any]  # float32, or float64 after model.double()


class ByteModel(nn.Module):
    """Parameter names are those of `core.parameters`; values come from a flat vector."""

    config: ModelConfig

    def ordered(self) -> list[nn.Parameter]:
        """The parameters in `core.parameters` order, which is that of every flat vector and file."""
        return [self.get_parameter(row.name) for row in parameters(self.config)]

    def load_flat(self, w: FlatArray) -> None:
        copy_flat(w, self.ordered())

    def flat(self) -> FlatArray:
        """All parameters as one vector, in the model's dtype."""
        return flatten(self.ordered())

    def flat_grad(self) -> FlatArray:
        """All gradients as one vector, after a backward pass."""
        return flatten(p.grad for p in self.ordered() if p.grad is not None)


class GPT(ByteModel, modules.Transformer):
    def __init__(self, model: ModelConfig, w: FlatArray) -> None:
        with torch.device("meta"):  # shapes only: no value is drawn from torch's generator
            modules.Transformer.__init__(self, model)
        self.to_empty(device="cpu")
        self.load_flat(w)
        if model.ngram_tables:
            nn.init.zeros_(self.tables)


class Bigram(ByteModel, modules.Bigram):
    def __init__(self, model: ModelConfig, w: FlatArray) -> None:
        with torch.device("meta"):
            modules.Bigram.__init__(self, model)
        self.to_empty(device="cpu")
        self.load_flat(w)


def make_model(model: ModelConfig, w: FlatArray) -> ByteModel:
    return Bigram(model, w) if model.kind == "bigram" else GPT(model, w)


def flatten(tensors: Iterable[Tensor]) -> FlatArray:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu().numpy()


def copy_flat(flat: FlatArray, tensors: list[Tensor] | list[nn.Parameter]) -> None:
    """Cut `flat` into the tensors, in place: whoever holds them (an optimizer, a CUDA graph) sees the new values."""
    sizes = [tensor.numel() for tensor in tensors]
    if flat.shape != (sum(sizes),):
        raise TinyGPTError(
            f"these weights have {flat.size:,} numbers, but the model takes {sum(sizes):,}: "
            f"they are of a model with other settings"
        )
    with torch.no_grad():
        for tensor, piece in zip(tensors, np.split(flat, np.cumsum(sizes)[:-1]), strict=True):
            tensor.copy_(torch.tensor(piece).view_as(tensor))


@torch.no_grad()
def load_tables(tables: nn.Parameter, given: Tables | None) -> None:
    """In place, as above; zeros where there are none."""
    tables.copy_(torch.zeros_like(tables) if given is None else torch.tensor(given.rows))
