"""PyTorch's own optimizers and Muon, with their state made here and not at the first step: its addresses are known
from the start, and a State is copied there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tinygpt.core.config import TrainConfig
from tinygpt.core.models.ngrams import ADAGRAD_EPS
from tinygpt.core.models.parameters import Parameter
from tinygpt.core.names import hidden_matrices
from tinygpt.core.optimizers.schedule import average_rate, learning_rate, ngram_rate
from tinygpt.reference.muon import Muon

# What PyTorch calls a State's slots.
KEYS = {
    "adamw": {"m": "exp_avg", "v": "exp_avg_sq"},
    "sgd": {"m": "momentum_buffer"},
    "muon": {"m": "exp_avg", "v": "exp_avg_sq"},
}


class Rates:
    """Of a step, each in a tensor of its own: filling it changes the rate, in a captured step too."""

    def __init__(self, device: torch.device) -> None:
        self.lr, self.matrix_lr, self.ngram_lr, self.average = [torch.zeros((), device=device) for _ in range(4)]

    def fill(self, train: TrainConfig, step: int) -> None:
        lr = learning_rate(train, step)
        self.lr.fill_(lr)
        self.matrix_lr.fill_(train.matrix_lr * lr / train.lr)
        self.ngram_lr.fill_(ngram_rate(train, step))
        self.average.fill_(average_rate(train, step))


def make_optimizer(
    tensors: list[nn.Parameter], rows: list[Parameter], train: TrainConfig, rates: Rates, iterate_in: torch.dtype
) -> torch.optim.Optimizer:
    """Muon's products are computed in `iterate_in`."""
    matrices: list[nn.Parameter] = []
    groups: dict[float, list[nn.Parameter]] = {}  # of the others, by weight decay
    hidden = hidden_matrices([row.name for row in rows]) if train.optimizer == "muon" else []
    for tensor, row in zip(tensors, rows, strict=True):
        by_muon = row.name in hidden
        group = matrices if by_muon else groups.setdefault(train.weight_decay if row.decay else 0.0, [])
        group.append(tensor)
    if train.optimizer == "sgd":
        made = sgd(groups, train, rates.lr)
    elif train.optimizer == "muon":
        muon = partial(Muon, matrices=matrices, matrix_lr=rates.matrix_lr, train=train, iterate_in=iterate_in)
        made = adamw(groups, train, rates.lr, muon)
    else:
        made = adamw(groups, train, rates.lr, torch.optim.AdamW)
    for tensor in tensors:
        for key in KEYS[train.optimizer].values():
            made.state[tensor][key] = torch.zeros_like(tensor)
    return made


def adamw(
    groups: dict[float, list[nn.Parameter]], train: TrainConfig, lr: Tensor, make: Callable[..., torch.optim.AdamW]
) -> torch.optim.Optimizer:
    made = make(
        [{"params": params, "weight_decay": decay} for decay, params in groups.items()],
        lr=lr,
        betas=(train.beta1, train.beta2),
        eps=train.eps,
        fused=True,
    )
    for params in groups.values():
        for tensor in params:
            made.state[tensor]["step"] = torch.zeros((), device=tensor.device)
    return made


def sgd(groups: dict[float, list[nn.Parameter]], train: TrainConfig, lr: Tensor) -> torch.optim.Optimizer:
    """PyTorch adds its weight decay to the gradient; a decoupled one shrinks the weights themselves."""
    by_decay = [{"params": params, "decay": decay} for decay, params in groups.items()]
    made = torch.optim.SGD(by_decay, lr=lr, momentum=train.momentum, fused=True)
    made.register_step_pre_hook(shrink)
    return made


@torch.no_grad()
def shrink(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        if group["decay"]:
            torch._foreach_mul_(group["params"], 1 - group["lr"] * group["decay"])


@torch.no_grad()
def step_rows(table: nn.Parameter, squares: Tensor, lr: Tensor) -> None:
    """AdaGrad by rows: each is divided by the root of the mean of all its squares so far."""
    grad = table.grad
    assert grad is not None
    if grad.is_sparse:
        grad = grad.coalesce()
        rows, d = grad.indices()[0], grad.values()
        squares.index_add_(0, rows, d.square().mean(1))
        table.index_add_(0, rows, -lr * d / (squares[rows].sqrt() + ADAGRAD_EPS)[:, None])
    else:
        squares += grad.square().mean(1)
        table.sub_(lr * grad / (squares.sqrt() + ADAGRAD_EPS)[:, None])
