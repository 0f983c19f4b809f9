"""The contract between the training loop and whatever computes.

Methods are coroutines because in the tab an engine answers with a promise. An engine of the
terminal never suspends; `tinygpt.core.trainer.run_now` drives such coroutines to their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count

FloatArray = npt.NDArray[np.float32]
ByteArray = npt.NDArray[np.uint8]


class State(NamedTuple):
    """A model's whole state: flat float32 vectors over all parameters, in `core.parameters` order.

    `m` and `v` are AdamW's moments; both are None for weights without optimizer state.
    """

    step: int
    w: FloatArray
    m: FloatArray | None = None
    v: FloatArray | None = None


class StepMetrics(NamedTuple):
    step: int  # the number of steps done once this one was
    loss: float  # mean cross-entropy of the step's batch, before its update
    grad_norm: float  # global norm before clipping


class Engine:
    """An engine holds one model, its optimizer state and the corpus.

    Its constructor takes a `state` to begin with; only where it is given none does it draw start values.
    """

    name = "engine"
    replicas = 1  # processes that share a step, each with `batch` sequences
    threads: int | None = None  # of the CPU, where it is the CPU that computes
    software = False  # a GPU's interface without a GPU behind it; `describe` says so too
    metrics_every = 1  # how often the loop should call read_metrics; GPUs prefer it seldom

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def describe(self) -> str:
        """The device and what matters for speed on it, in one line."""
        return self.name

    async def load_corpus(self, train: bytes, val: bytes) -> None:
        """Take the corpus; offsets given later point into these two."""
        raise NotImplementedError

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        """Do step number `step` (from 1): mean loss over the windows, backward, clip, AdamW.

        `offsets` has batch * grad_accum * replicas entries; window o is x = train[o : o + ctx],
        y = train[o + 1 : o + ctx + 1]. May return before the work is done.
        """
        raise NotImplementedError

    async def read_metrics(self) -> list[StepMetrics]:
        """The metrics of all steps since the last call, waiting for those still under way."""
        raise NotImplementedError

    async def eval_loss(self, offsets: list[int]) -> float:
        """Mean loss over windows of the validation part. Changes nothing."""
        raise NotImplementedError

    async def window_losses(self, windows: ByteArray) -> FloatArray:
        """The loss [B, T] of every byte but the first in windows [B, T + 1], each predicted from those before it.

        Any B, and T from 1 to ctx, whatever the batch of the training. Changes nothing.
        """
        raise NotImplementedError

    async def export_state(self) -> State:
        raise NotImplementedError

    async def import_state(self, state: State) -> None:
        raise NotImplementedError

    async def prefill(self, tokens: bytes) -> list[float]:
        """Empty the KV cache, feed 1 to ctx tokens, return the 256 logits after the last."""
        raise NotImplementedError

    async def decode(self, token: int) -> list[float]:
        """Feed one more token behind those in the KV cache, return the 256 logits after it."""
        raise NotImplementedError

    async def agree(self, flag: bool) -> bool:
        """Whether any replica raised the flag."""
        return flag

    async def close(self) -> None:
        """Give back memory and threads."""

    def check_state(self, state: State) -> None:
        """Refuse the state of another model."""
        count = parameter_count(self.config.model)
        if state.w.size != count:
            raise TinyGPTError(f"the state has {state.w.size:,} parameters, but this model has {count:,}")

    def check_windows(self, windows: ByteArray) -> None:
        """Refuse what `window_losses` does not take."""
        ctx = self.config.model.ctx
        if windows.ndim != 2 or not 2 <= windows.shape[1] <= ctx + 1:
            raise TinyGPTError(f"windows must be rows of 2 to {ctx + 1} bytes, not {list(windows.shape)}")


def padded_batches(windows: ByteArray, batch: int, ctx: int) -> Iterator[tuple[slice, ByteArray]]:
    """Windows [B, T + 1] in batches of the eval program's shape, zeros where there is no more text.

    With each batch [batch, ctx + 1], whose array is used again, the rows of `windows` that are in it.
    """
    padded = np.zeros((batch, ctx + 1), dtype=np.uint8)
    for start in range(0, len(windows), batch):
        part = windows[start : start + batch]
        padded[: len(part), : part.shape[1]] = part
        yield slice(start, start + len(part)), padded
