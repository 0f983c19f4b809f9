"""The model as PyTorch modules: tokens to logits, and nothing of TinyGPT but three numbers.

`tinygpt.reference.model` gives them weights. An export for transformers takes this file along as it is
(`store/formats/auto_model.py`), so it imports nothing else of ours. Sizes: B sequences, T tokens in each, C = d_model,
V = 256 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinygpt.core.config import LAYERNORM_EPS, ROTARY_BASE, VOCAB

if TYPE_CHECKING:
    from tinygpt.core.config import ModelConfig

Drop = Callable[[Tensor, int], Tensor]  # what dropout makes of a tensor at a numbered place of the model


class LayerCache:
    """What one attention layer keeps of the tokens it has seen: keys and values [B, heads, seen, head_size]."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.state: Tensor | None = None  # of a recurrent layer, instead: [B, C]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of all tokens, these new ones included."""
        if self.keys is not None and self.values is not None:
            k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.keys, self.values = k, v
        return k, v


class Cache:
    """Lets a model read on from where it stopped, without reading everything again."""

    def __init__(self, layers: int) -> None:
        self.layers = [LayerCache() for _ in range(layers)]
        self.length = 0  # tokens that were read
        self.recent: Tensor | None = None  # the last of them, [B, up to 7], for n-gram tables


def make_norm(model: ModelConfig) -> nn.Module:
    if model.norm == "rmsnorm":
        return nn.RMSNorm(model.d_model, eps=LAYERNORM_EPS)
    return nn.LayerNorm(model.d_model, eps=LAYERNORM_EPS, bias=model.biases == "on")


def rotate(x: Tensor, first: int) -> Tensor:
    """Rotary positions of x [..., T, head_size], whose rows stand at `first`, first + 1, …: the pair (x_i, x_(i + D/2))
    turns by the angle position * base^(-2i/D)."""
    T, D = x.shape[-2:]
    places = torch.arange(first, first + T, device=x.device, dtype=torch.float64)
    speeds = ROTARY_BASE ** (-torch.arange(0, D, 2, device=x.device, dtype=torch.float64) / D)
    angles = torch.outer(places, speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def alibi_bias(heads: int, T: int, seen: int, like: Tensor) -> Tensor:
    """What is added to the scores [heads, T, seen] of the T newest of `seen` tokens: per token between query and key
    head h loses 2^(-8 (h + 1) / heads), and where the key comes later everything."""
    places = torch.arange(seen, device=like.device, dtype=torch.float64)
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1, device=like.device, dtype=torch.float64) / heads)
    distance = places[seen - T :, None] - places
    return (-slopes[:, None, None] * distance).masked_fill(distance < 0, -torch.inf).to(like.dtype)


class Attention(nn.Module):
    """Each token looks back: softmax(q kᵀ / sqrt(head_size)) v over itself and the tokens before it."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        C, bias = model.d_model, model.biases == "on"
        self.heads, self.head_size = model.heads, model.head_size
        self.qk_norm, self.rotary = model.qk_norm == "on", model.positions == "rotary"
        self.alibi = model.positions == "alibi"
        self.q_proj = nn.Linear(C, C, bias)
        self.k_proj = nn.Linear(C, model.kv_width, bias)
        self.v_proj = nn.Linear(C, model.kv_width, bias)
        self.o_proj = nn.Linear(C, C, bias)

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, heads, T, head_size]; keys and values may have fewer heads."""
        B, T, _ = x.shape
        return x.view(B, T, -1, self.head_size).transpose(1, 2)

    def prepared(self, x: Tensor, past: int) -> Tensor:
        """Queries or keys, as the model's options have them."""
        if self.qk_norm:
            x = F.rms_norm(x, x.shape[-1:], eps=LAYERNORM_EPS)
        return rotate(x, past) if self.rotary else x

    def forward(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        B, T, C = x.shape
        past = 0 if cache is None or cache.keys is None else cache.keys.size(2)
        q = self.prepared(self.split_heads(self.q_proj(x)), past)
        k = self.prepared(self.split_heads(self.k_proj(x)), past)
        v = self.split_heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.append(k, v)
        if k.size(1) < self.heads:  # each is shared by a group of heads of queries
            k, v = (x.repeat_interleave(self.heads // x.size(1), dim=1) for x in (k, v))
        seen = past + T
        if self.alibi:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=alibi_bias(self.heads, T, seen, q))
        elif seen == T:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # the T newest of `seen` tokens ask: query i may look at keys 0 .. seen - T + i
            visible = torch.ones(T, seen, dtype=torch.bool, device=x.device).tril(seen - T)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(B, T, C))
        return out


class Recurrence(nn.Module):
    """Each token keeps a share of what those before it left, y_t = (1 - z_t) y_(t-1) + z_t v_t: the gate's."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        C, bias = model.d_model, model.biases == "on"
        self.gate_proj = nn.Linear(C, C, bias)
        self.value_proj = nn.Linear(C, C, bias)
        self.o_proj = nn.Linear(C, C, bias)

    def forward(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        z, v = torch.sigmoid(self.gate_proj(x)), self.value_proj(x)
        state = torch.zeros_like(v[:, 0]) if cache is None or cache.state is None else cache.state
        rows = []
        for t in range(x.size(1)):
            state = (1 - z[:, t]) * state + z[:, t] * v[:, t]
            rows.append(state)
        if cache is not None:
            cache.state = state
        out: Tensor = self.o_proj(torch.stack(rows, dim=1))
        return out


class MLP(nn.Module):
    """Each token thinks for itself: C -> 4C -> C, or with a gate C -> twice about 8C/3 -> C."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        C, hidden, bias = model.d_model, model.d_mlp, model.biases == "on"
        self.activation = model.activation
        if self.activation == "swiglu":
            self.fc_gate = nn.Linear(C, hidden, bias)
        self.fc_in = nn.Linear(C, hidden, bias)
        self.fc_out = nn.Linear(hidden, C, bias)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc_in(x)
        if self.activation == "swiglu":
            h = F.silu(self.fc_gate(x)) * h
        elif self.activation == "relu2":
            h = F.relu(h).square()
        else:
            h = F.gelu(h)  # the exact one, by erf
        out: Tensor = self.fc_out(h)
        return out


class Block(nn.Module):
    """Two additions to the residual stream, each from a normalised copy of it, or normalised themselves."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.norm_place = model.norm_place
        self.ln1 = make_norm(model)
        self.recurrent = model.kind == "recurrent"
        if self.recurrent:
            self.mix = Recurrence(model)
        else:
            self.attn = Attention(model)
        self.ln2 = make_norm(model)
        self.mlp = MLP(model)

    def forward(self, x: Tensor, cache: LayerCache | None, drop: Drop, place: int) -> Tensor:
        """`drop` has the places `place` and `place` + 1 here."""
        mixed = self.mix if self.recurrent else self.attn
        if self.norm_place == "post":
            after_attention = self.ln1(x + drop(mixed(x, cache), place))
            out: Tensor = self.ln2(after_attention + drop(self.mlp(after_attention), place + 1))
            return out
        after_attention = x + drop(mixed(self.ln1(x), cache), place)
        return after_attention + drop(self.mlp(self.ln2(after_attention)), place + 1)


def keep_all(x: Tensor, place: int) -> Tensor:
    return x


def picked_rows(model: ModelConfig, tokens: Tensor) -> Tensor:
    """[B, T, G]: the row of each n-gram table that the last bytes up to each of tokens [B, T] pick; -1 where there are
    too few. A table that has a row for each n-gram is asked by its bytes as a number, any other by their hash."""
    rows = []
    for g, n in enumerate(model.ngram_tables):
        last = tokens.unfold(1, n, 1) if tokens.size(1) >= n else tokens.new_zeros(tokens.size(0), 0, n)
        number = torch.full_like(last[..., 0], 0 if 256**n <= model.ngram_rows else n)
        for i in range(n):
            number = number * 256 + last[..., i] if 256**n <= model.ngram_rows else fnv(number, last[..., i])
        if 256**n > model.ngram_rows:
            number = mixed(number) % model.ngram_rows
        unknown = tokens.new_full((tokens.size(0), min(n - 1, tokens.size(1))), -1)
        rows.append(torch.cat([unknown, number + g * model.ngram_rows], dim=1))
    return torch.stack(rows, dim=-1)


def fnv(number: Tensor, byte: Tensor) -> Tensor:
    return (number ^ byte) * 16777619 % 2**32


def mixed(word: Tensor) -> Tensor:
    """A hash of 32 bits, by halves of 16: PyTorch's whole numbers end at 2^63."""

    def times(word: Tensor, factor: int) -> Tensor:
        return (word * (factor & 0xFFFF) + (word * (factor >> 16) % 2**16 << 16)) % 2**32

    word = times(word, 0x9E3779B1)
    word = times(word ^ word >> 15, 0x85EBCA77)
    return word ^ word >> 13


class Transformer(nn.Module):
    """A byte-level GPT; or its recurrent sibling, which needs no positions."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.config = model
        self.token_embedding = nn.Embedding(VOCAB, model.d_model)
        self.places = model.kind == "gpt" and model.positions == "learned"
        if self.places:
            self.position_embedding = nn.Embedding(model.ctx, model.d_model)
        if model.ngram_tables:
            width = len(model.ngram_tables) * model.ngram_width
            self.ngram_proj = nn.Linear(width, model.d_model, bias=False)
        self.blocks = nn.ModuleList([Block(model) for _ in range(model.layers)])
        self.ln_final = make_norm(model) if model.norm_place == "pre" else nn.Identity()
        if model.tied_head == "off":
            self.lm_head = nn.Linear(model.d_model, VOCAB, bias=False)
        if model.ngram_tables:
            self.tables = nn.Parameter(torch.zeros(len(model.ngram_tables) * model.ngram_rows, model.ngram_width))

    def look_up(self, tokens: Tensor, cache: Cache | None) -> Tensor:
        """What the n-gram tables add to the embedding of tokens [B, T]."""
        known = tokens if cache is None or cache.recent is None else torch.cat([cache.recent, tokens], dim=1)
        rows = picked_rows(self.config, known)[:, known.size(1) - tokens.size(1) :]
        if cache is not None:
            cache.recent = known[:, -7:]
        # Few rows are touched. Where a step is captured in a graph, gradients must have shapes that are known before.
        picked = F.embedding(rows.clamp(min=0), self.tables, sparse=self.tables.device.type == "cpu")
        out: Tensor = self.ngram_proj((picked * (rows >= 0)[..., None]).flatten(2))
        return out

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        cache: Cache | None = None,
        drop: Drop = keep_all,
        smoothing: float = 0.0,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits [B, T, V] for `tokens` [B, T] of int64; with `targets` [B, T] also their mean cross-entropy.

        With a cache, `tokens` follow those fed before, and attention sees all of them. `drop` is dropout, while
        training: its place 0 is behind the embedding, 2i + 1 and 2i + 2 are behind the two branches of block i.
        `smoothing` is that of the targets, likewise.
        """
        past = 0 if cache is None else cache.length
        end = past + tokens.size(1)
        if end > self.config.ctx:
            raise ValueError(f"{end} tokens do not fit this model's context of {self.config.ctx}")

        x = self.token_embedding(tokens)
        if self.places:
            x = x + self.position_embedding.weight[past:end]
        if self.config.ngram_tables:
            x = x + self.look_up(tokens, cache)
        x = drop(x, 0)
        for i, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache.layers[i], drop, 2 * i + 1)
        if cache is not None:
            cache.length = end
        x = self.ln_final(x)
        tied = self.config.tied_head == "on"
        logits = F.linear(x, self.token_embedding.weight if tied else self.lm_head.weight)
        if self.config.logit_cap:
            logits = self.config.logit_cap * torch.tanh(logits / self.config.logit_cap)
        return with_loss(logits, targets, smoothing)


class Bigram(nn.Module):
    """A byte's row of one table is the logits of the byte after it: neither a past nor dropout matters."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.config = model
        self.token_embedding = nn.Embedding(VOCAB, VOCAB)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        cache: Cache | None = None,
        drop: Drop = keep_all,
        smoothing: float = 0.0,
    ) -> Tensor | tuple[Tensor, Tensor]:
        return with_loss(self.token_embedding(tokens), targets, smoothing)


def with_loss(logits: Tensor, targets: Tensor | None, smoothing: float) -> Tensor | tuple[Tensor, Tensor]:
    if targets is None:
        return logits
    return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1), label_smoothing=smoothing)
