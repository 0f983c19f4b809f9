"""The same training under `torchrun`: every process takes its share of a step's windows, gradients are averaged.

    torchrun --nproc-per-node 2 -m tinygpt train ...

`batch` and `grad_accum` are the run's, whatever the number of processes: so a run has the same steps and validations
with any number of them, and can be resumed with another. A process has at most `batch` windows in memory at once.
"""

from __future__ import annotations

import gc
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_parameters
from tinygpt.engines.base import Base, State
from tinygpt.reference.devices import pick_device
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.lora import adapted_model


def world_size() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this is the process that prints and writes files."""
    return int(os.environ.get("RANK", "0")) == 0


def torch_engine(
    config: RunConfig, state: State | None = None, base: Base | None = None, **options: Any
) -> TorchEngine:
    """The engine for this process: one of several under torchrun, else the only one. Options as for `TorchEngine`.

    With `config.lora` it trains adapters on the weights `base`, and its states are of those alone.
    """
    if config.lora is not None:
        options.update(model=adapted_model(config, base), trained=trained_parameters(config))
    if world_size() > 1:
        options.update(device=join(options.get("device", "auto")), processes=Together())
    return TorchEngine(config, state, **options)


class Together:
    """The processes that torchrun started, once they have met."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)

    def share(self, offsets: list[int]) -> list[int]:
        size = len(offsets) // self.count
        return offsets[self.rank * size : (self.rank + 1) * size]

    def accumulating(self, network: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Gradients are exchanged once per step, during the last backward pass."""
        assert isinstance(network, DistributedDataParallel)
        return nullcontext() if last else network.no_sync()

    def mean(self, metrics: Tensor) -> Tensor:
        return self.total(metrics) / self.count

    def total(self, sums: Tensor) -> Tensor:
        both = sums.clone()
        dist.all_reduce(both)
        return both

    def agree(self, flag: bool) -> bool:
        """Exchanged between the hosts, so that the GPUs are not waited for."""
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return bool(raised.item())

    def close(self) -> None:
        """The connections have threads of their own, which must end before the interpreter does."""
        if dist.is_initialized():
            dist.destroy_process_group()
            gc.collect()


def join(device: str) -> str:
    """Meet the other processes; the device that is this one's."""
    chosen = pick_device(device)
    if chosen.type != "cuda":
        dist.init_process_group("gloo")
        return chosen.type
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if local_rank >= torch.cuda.device_count():
        raise TinyGPTError(
            f"torchrun started more processes than this machine has GPUs ({torch.cuda.device_count()}); "
            f"lower --nproc-per-node, or choose --device cpu"
        )
    torch.cuda.set_device(local_rank)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return f"cuda:{local_rank}"
