"""A model some of whose parts count for more, less, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinygpt.core.config import ModelConfig
from tinygpt.core.models.parts import scaled_parts, stretches_of
from tinygpt.engines.base import FloatArray, State
from tinygpt.store.formats import Checkpoint


def scaled_model(checkpoint: Checkpoint, ablate: Sequence[str], scale: Sequence[str] = ()) -> Checkpoint:
    """A copy without the parts that `ablate` names, and with those of `scale` ("blocks.1.mlp=0.5") scaled.

    Its optimizer's state is left out: it is of the whole model.
    """
    parts = scaled_parts(checkpoint.config.model, list(ablate), list(scale))
    if not parts:
        return checkpoint
    weights = scaled_weights(checkpoint.config.model, checkpoint.state.w, parts)
    return replace(checkpoint, state=State(checkpoint.state.step, weights, tables=checkpoint.state.tables))


def scaled_weights(model: ModelConfig, weights: FloatArray, parts: Sequence[tuple[str, float]]) -> FloatArray:
    scaled = weights.copy()
    for name, factor in parts:
        for offset, rows, width, pitch in stretches_of(model, name):
            for row in range(rows):
                scaled[offset + row * pitch : offset + row * pitch + width] *= np.float32(factor)
    return scaled
