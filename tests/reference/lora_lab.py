"""A small model, and adapters for it as if trained."""

import numpy as np
import torch

from tinygpt.core.config import PROJECTIONS, LoraConfig, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.models.adapters import adapter_parameters
from tinygpt.engines.base import State
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.lora import base_weights
from tinygpt.reference.model import GPT
from tinygpt.store.formats.adapter_file import Adapter
from tinygpt.store.formats.checkpoint import Checkpoint, weights_sha256

MODEL = ModelConfig(layers=2, d_model=24, heads=2, ctx=16)
EVERYWHERE = LoraConfig(rank=3, alpha=6.0, targets=",".join(name for name in PROJECTIONS if name != "fc_gate"))
SEED = 7


def make_model(seed: int = SEED, config: ModelConfig = MODEL) -> GPT:
    return GPT(config, initial_weights(config, seed))


def random_tokens(rows: int = 3, T: int = MODEL.ctx) -> torch.Tensor:
    return torch.randint(0, 256, (rows, T), generator=torch.Generator().manual_seed(1))


def logits_of(model: GPT) -> torch.Tensor:
    with torch.no_grad():
        return model(random_tokens())


def random_adapter(model: GPT, seed: int, lora: LoraConfig = EVERYWHERE, name: str = "wild") -> Adapter:
    """As if trained: neither A nor B is zero."""
    rows = adapter_parameters(model.config, lora)
    w = np.random.default_rng(seed).normal(0, 0.1, rows[-1].offset + rows[-1].size).astype(np.float32)
    config = RunConfig(model.config, TrainConfig(), lora)
    return Adapter(name, weights_sha256(base_weights(model)), Checkpoint(config, State(5, w)))
