"""How well a model predicts a text: loss, perplexity, bits per byte, and the loss of every single byte."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tinygpt.core.engine.contract import Engine
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.base import FloatArray


class Evaluation(NamedTuple):
    loss: float  # mean cross-entropy per byte, in nats
    perplexity: float
    bits_per_byte: float
    per_byte: FloatArray  # [len(text) - 1]: entry i is the loss of byte i + 1, given those before it


async def evaluate(engine: Engine, text: bytes, on_scored: Callable[[int], None] = lambda scored: None) -> Evaluation:
    """Score `text` with the engine's model; `on_scored` is told how many bytes are."""
    if len(text) < 2:
        raise TinyGPTError(
            f"a text of {len(text)} bytes cannot be evaluated: it takes 2, one to predict from the other"
        )
    T = min(engine.config.model.ctx, len(text) - 1)
    batch = engine.config.train.batch
    per_byte = np.empty(len(text) - 1, dtype=np.float32)
    scored = 0
    starts = list(window_starts(len(text), T))
    for first in range(0, len(starts), batch):
        group = starts[first : first + batch]
        losses = await engine.window_losses([text[start : start + T + 1] for start in group])
        for start, row in zip(group, losses, strict=True):
            per_byte[scored : start + T] = row[scored - start :]
            scored = start + T
        on_scored(scored)
    loss = float(per_byte.mean(dtype=np.float64))
    if not math.isfinite(loss):
        raise TinyGPTError("the model's loss is not finite, so it cannot be evaluated: its weights are too large")
    perplexity = math.exp(loss) if loss < 700 else math.inf  # e^710 is more than a float holds
    return Evaluation(loss, perplexity, loss / math.log(2), per_byte)


def window_starts(length: int, T: int) -> Iterator[int]:
    """Where windows of T + 1 bytes begin, so that together they predict every byte but the first.

    Each begins half a window after the one before and scores only what is new to it, so from the second
    window on no byte is predicted from fewer than half a window. The last one ends with the text.
    """
    last = length - 1 - T
    yield from range(0, last, max(1, T // 2))
    yield last
