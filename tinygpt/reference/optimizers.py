"""PyTorch's own optimizers, with their state made here and not at the first step: its addresses are known from the
start, and a State is copied there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tinygpt.core.config import TrainConfig
from tinygpt.core.errors import TinyGPTError

# What PyTorch calls a State's slots.
KEYS = {"adamw": {"m": "exp_avg", "v": "exp_avg_sq"}, "sgd": {"m": "momentum_buffer"}}


def make_optimizer(
    tensors: list[nn.Parameter], decayed: list[bool], train: TrainConfig, lr: Tensor
) -> torch.optim.Optimizer:
    """Its rate is the one number in `lr`: filling it changes the rate, in a captured step too."""
    if train.optimizer not in KEYS:
        raise TinyGPTError(f"this engine does not train with {train.optimizer}; choose another engine or optimizer")
    groups: dict[float, list[nn.Parameter]] = {}  # by weight decay
    for tensor, decays in zip(tensors, decayed, strict=True):
        groups.setdefault(train.weight_decay if decays else 0.0, []).append(tensor)
    made = {"adamw": adamw, "sgd": sgd}[train.optimizer](groups, train)
    for group in made.param_groups:
        group["lr"] = lr
    for tensor in tensors:
        for key in KEYS[train.optimizer].values():
            made.state[tensor][key] = torch.zeros_like(tensor)
    return made


def adamw(groups: dict[float, list[nn.Parameter]], train: TrainConfig) -> torch.optim.Optimizer:
    made = torch.optim.AdamW(
        [{"params": params, "weight_decay": decay} for decay, params in groups.items()],
        betas=(train.beta1, train.beta2),
        eps=train.eps,
        fused=True,
    )
    for params in groups.values():
        for tensor in params:
            made.state[tensor]["step"] = torch.zeros((), device=tensor.device)
    return made


def sgd(groups: dict[float, list[nn.Parameter]], train: TrainConfig) -> torch.optim.Optimizer:
    """PyTorch adds its weight decay to the gradient; a decoupled one shrinks the weights themselves."""
    made = torch.optim.SGD(
        [{"params": params, "decay": decay} for decay, params in groups.items()], momentum=train.momentum, fused=True
    )
    made.register_step_pre_hook(shrink)
    return made


@torch.no_grad()
def shrink(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        if group["decay"]:
            torch._foreach_mul_(group["params"], 1 - group["lr"] * group["decay"])
