"""Every setting of a run as a keyword, for editors and type checkers; tests hold it against core/config.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar

from tinygpt.core.config import ModelConfig, TrainConfig

Function = TypeVar("Function", bound=Callable[..., Any])


class TrainSettings(TypedDict, total=False):
    """Of training: what `resume` may change, and `train` may state."""

    batch: int
    steps: int
    lr: float
    schedule: Literal["constant", "cosine"]
    warmup: int
    min_lr: float
    optimizer: Literal["adamw", "muon", "sgd"]
    beta1: float
    beta2: float
    eps: float
    momentum: float
    matrix_lr: float
    ngram_lr: float
    ns_steps: int
    ns_polynomials: Literal["quintic", "polar"]
    weight_decay: float
    average: float
    grad_clip: float
    grad_accum: int
    windows: Literal["random", "shuffled"]
    dropout: float
    label_smoothing: float
    val_fraction: float
    eval_every: int
    eval_batches: int
    patience: int
    sample_every: int
    checkpoint_every: int
    keep_every: int
    seed: int


class RunSettings(TrainSettings, total=False):
    """Of the model too: what `train` may state of a new run."""

    layers: int
    d_model: int
    heads: int
    ctx: int
    kind: Literal["gpt", "recurrent", "bigram"]
    norm: Literal["layernorm", "rmsnorm"]
    norm_place: Literal["pre", "post"]
    positions: Literal["learned", "rotary", "alibi", "none"]
    activation: Literal["gelu", "relu2", "swiglu"]
    biases: Literal["on", "off"]
    tied_head: Literal["on", "off"]
    qk_norm: Literal["off", "on"]
    kv_heads: int
    logit_cap: float
    ngrams: str
    ngram_rows: int
    ngram_width: int


def spelled_out(*sections: type[ModelConfig] | type[TrainConfig]) -> Callable[[Function], Function]:
    """Its **settings by name in the signature that notebooks and `help` show; None is what the preset has."""

    def spell(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        fields = [field for section in sections for field in section.FIELDS]
        named += [inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None) for field in fields]
        function.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
        return function

    return spell
