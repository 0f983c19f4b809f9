"""Who takes part in a step: this process alone, or with others (`distributed.Together`)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn


class Processes(Protocol):
    rank: int  # of this process
    count: int

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        """What a step calls instead of the model, so that gradients become those of all processes."""

    def share(self, offsets: list[int]) -> list[int]:
        """This process's windows of a step, as many as any other's."""

    def accumulating(self, network: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Wraps forward and backward of one micro-batch."""

    def mean(self, metrics: Tensor) -> Tensor: ...

    def total(self, sums: Tensor) -> Tensor: ...

    def agree(self, flag: bool) -> bool:
        """Whether any process raises the flag."""

    def close(self) -> None: ...


class Alone:
    rank = 0
    count = 1

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        return model

    def share(self, offsets: list[int]) -> list[int]:
        return offsets

    def accumulating(self, network: nn.Module, last: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def mean(self, metrics: Tensor) -> Tensor:
        return metrics

    def total(self, sums: Tensor) -> Tensor:
        return sums

    def agree(self, flag: bool) -> bool:
        return flag

    def close(self) -> None:
        pass
