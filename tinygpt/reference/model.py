"""The model in PyTorch, from bytes to loss. Autograd derives the backward pass.

Every other engine derives it by hand; this file is what they are held against. It shares with them
the parameter list of `core.parameters` and the start values, and nothing else. Sizes: B sequences,
T tokens in each, C = d_model, V = 256 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinygpt.core.config import LAYERNORM_EPS, VOCAB, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters

FlatArray = npt.NDArray[Any]  # float32, or float64 after model.double()


class LayerCache:
    """What one attention layer keeps of the tokens it has seen: keys and values [B, heads, seen, head_size]."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of all tokens, these new ones included."""
        if self.keys is not None and self.values is not None:
            k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.keys, self.values = k, v
        return k, v


class Cache:
    """The KV cache: lets a model read on from where it stopped, without reading everything again."""

    def __init__(self, layers: int) -> None:
        self.layers = [LayerCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        keys = self.layers[0].keys
        return 0 if keys is None else keys.size(2)


class Attention(nn.Module):
    """Each token looks back: softmax(q kᵀ / sqrt(head_size)) v over itself and the tokens before it."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        C = model.d_model
        self.heads = model.heads
        self.q_proj = nn.Linear(C, C)
        self.k_proj = nn.Linear(C, C)
        self.v_proj = nn.Linear(C, C)
        self.o_proj = nn.Linear(C, C)

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, heads, T, head_size]"""
        B, T, C = x.shape
        return x.view(B, T, self.heads, C // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        B, T, C = x.shape
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.append(k, v)
        seen = k.size(2)
        if seen == T:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # the T newest of `seen` tokens ask: query i may look at keys 0 .. seen - T + i
            visible = torch.ones(T, seen, dtype=torch.bool, device=x.device).tril(seen - T)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(B, T, C))
        return out


class MLP(nn.Module):
    """Each token thinks for itself: C -> 4C -> C."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.fc_in = nn.Linear(model.d_model, model.d_mlp)
        self.fc_out = nn.Linear(model.d_mlp, model.d_model)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc_out(F.gelu(self.fc_in(x)))  # F.gelu is the exact one, by erf
        return out


class Block(nn.Module):
    """Two additions to the residual stream, each from a normalised copy of it."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(model.d_model, eps=LAYERNORM_EPS)
        self.attn = Attention(model)
        self.ln2 = nn.LayerNorm(model.d_model, eps=LAYERNORM_EPS)
        self.mlp = MLP(model)

    def forward(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        after_attention = x + self.attn(self.ln1(x), cache)
        out: Tensor = after_attention + self.mlp(self.ln2(after_attention))
        return out


class GPT(nn.Module):
    """A byte-level GPT-2. Parameter names are those of `core.parameters`; values come from the flat vector `w`."""

    def __init__(self, model: ModelConfig, w: FlatArray) -> None:
        super().__init__()
        self.config = model
        with torch.device("meta"):  # shapes only: no value is drawn from torch's generator
            self.token_embedding = nn.Embedding(VOCAB, model.d_model)
            self.position_embedding = nn.Embedding(model.ctx, model.d_model)
            self.blocks = nn.ModuleList([Block(model) for _ in range(model.layers)])
            self.ln_final = nn.LayerNorm(model.d_model, eps=LAYERNORM_EPS)
        self.to_empty(device="cpu")
        self.load_flat(w)

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits [B, T, V] for `tokens` [B, T] of int64; with `targets` [B, T] also their mean cross-entropy.

        With a cache, `tokens` follow those fed before, and attention sees all of them.
        """
        past = 0 if cache is None else cache.length
        end = past + tokens.size(1)
        if end > self.config.ctx:
            raise TinyGPTError(f"{end} tokens do not fit this model's context of {self.config.ctx}")

        x = self.token_embedding(tokens) + self.position_embedding.weight[past:end]
        for i, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache.layers[i])
        x = self.ln_final(x)
        logits = F.linear(x, self.token_embedding.weight)  # the output head is the embedding table again
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))

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
