"""The same training under `torchrun`: every process takes its share of a step's windows, gradients are averaged.

    torchrun --nproc-per-node 2 -m tinygpt train ...

`batch` is per process, as in the contract of `core/engine/contract.py`: two processes make a step of twice the windows.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_parameters
from tinygpt.engines.base import Base, State
from tinygpt.reference.engine import TorchEngine, pick_device
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
    kind = DistributedEngine if world_size() > 1 else TorchEngine
    if config.lora is not None:
        options.update(model=adapted_model(config, base), trained=trained_parameters(config))
    return kind(config, state, **options)


class DistributedEngine(TorchEngine):
    """A TorchEngine whose steps, metrics and validations are shared by all processes.

    Weights and moments are the same everywhere at all times, so any process can export them.
    """

    name = "torch-distributed"

    def __init__(self, config: RunConfig, state: State | None = None, *, device: str = "auto", **options: Any) -> None:
        super().__init__(config, state, device=join(device), **options)
        self.rank = dist.get_rank()
        self.replicas = dist.get_world_size()
        self.block = self.block or 1  # all must ask for the same steps, whatever their clocks say
        self.graphed = False  # DDP overlaps its exchange with the backward pass by hooks, which run in Python
        on_gpu = self.device.type == "cuda"
        self.data_parallel = DistributedDataParallel(self.model, device_ids=[self.device] if on_gpu else None)
        self.network = self.data_parallel

    def describe(self) -> str:
        return f"{super().describe()}, {self.replicas} processes"

    def share(self, offsets: list[int]) -> list[int]:
        size = len(offsets) // self.replicas
        return offsets[self.rank * size : (self.rank + 1) * size]

    def accumulating(self, last: bool) -> AbstractContextManager[None]:
        """Gradients are exchanged once per step, during the last backward pass."""
        return nullcontext() if last else self.data_parallel.no_sync()

    def averaged(self, metrics: Tensor) -> Tensor:
        mean = metrics.clone()
        dist.all_reduce(mean)
        return mean / self.replicas

    def loss_sum(self, offsets: list[int]) -> tuple[float, int]:
        total, count = super().loss_sum(offsets[self.rank :: self.replicas])
        both = torch.tensor([total, count], dtype=torch.float64)
        dist.all_reduce(both)
        return both[0].item(), int(both[1].item())

    async def agree(self, flag: bool) -> bool:
        """Exchanged between the hosts, so that the GPUs are not waited for."""
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return bool(raised.item())

    async def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


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
