"""The backward pass against finite differences: of every parameter, in float64, on a small model.

A gradient g says how the loss changes along a direction d: by g·d. Measured, it is (L(w + ε d) - L(w - ε d)) / 2ε. Two
directions are tried: along the gradient itself, where a wrong length shows, and a random one, where a wrong direction
does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.models.memory import TABLES
from tinygpt.core.models.parameters import parameters
from tinygpt.engines.spec import spec_engine

EPSILON = 1e-4
# A central difference is off by ε² times a third derivative, which is of the gradient's size, and by the losses'
# rounding over ε: some 16 operations of 2^-53 each on a loss of at most 8.
WITHIN = 1e-6  # of the gradient's length
ROUNDING = 16 * 2.0**-53 * 8 / EPSILON


class Checked(NamedTuple):
    """Of a parameter: the length of its gradient, and the larger of two errors."""

    name: str
    length: float
    error: float

    @property
    def right(self) -> bool:
        return self.error <= WITHIN * self.length + ROUNDING


def small(config: RunConfig) -> RunConfig:
    """Of the same make, so small that NumPy takes no time, and without what is random."""
    return config.replace(
        layers=2, d_model=24, heads=3, ctx=8, batch=3, grad_accum=2, dropout=0.0, kv_heads=0,
        ngram_rows=256, ngram_width=4,
    )  # fmt: skip


def check_gradients(config: RunConfig, text: bytes, seed: int = 0) -> list[Checked]:
    """In the order in which the backward pass reaches them: from the head to the embedding."""
    engine = spec_engine(small(config), dtype=np.float64)
    run_now(engine.load_corpus(text, b""))
    rng = np.random.default_rng(seed)
    weights = engine.player.view("live" if config.train.average else "weights")
    weights += rng.normal(size=weights.shape) * 0.1  # away from start values, where many gradients are alike
    if engine.memory.has(TABLES):
        tables = engine.player.view(TABLES)
        tables += rng.normal(size=tables.shape) * 0.1
    loss_of(engine)
    gradient = engine.player.view("grads").copy()
    checked = []
    moves = {move.name: move for move in engine.memory.lowered.memory.layout.moves}
    for move in [moves[name] for name in backward_order(engine.config)]:
        here = slice(move.start, move.start + move.size)
        length = float(np.linalg.norm(gradient[here]))
        error = 0.0
        for direction in (gradient[here], rng.normal(size=move.size)):
            unit = direction / (np.linalg.norm(direction) or 1.0)
            kept, losses = weights[here].copy(), []
            for sign in (1, -1):
                weights[here] = kept + sign * EPSILON * unit
                losses.append(loss_of(engine))
            weights[here] = kept
            measured = (losses[0] - losses[1]) / (2 * EPSILON)
            error = max(error, abs(measured - float(gradient[here] @ unit)))
        checked.append(Checked(move.name, length, error))
    return checked


def backward_order(config: RunConfig) -> list[str]:
    """Parameters in the order in which the backward pass reaches them."""
    names = [row.name for row in parameters(config.model)]
    inside = [name for name in names if name.startswith("blocks.")]
    last = [name for name in names if name.startswith(("ln_final", "lm_head"))]
    return last[::-1] + inside[::-1] + [name for name in names if name not in inside + last]


def loss_of(engine: ProgramEngine) -> float:
    """Of one batch, always the same; its gradient is left where programs keep it."""
    run_now(engine.set_step(0))
    run_now(engine.player.run("gradient", 1))
    return float(engine.player.view("loss")[0])
