"""The backward pass against finite differences: of every parameter, in float64, on a small model.

A gradient g says how the loss changes along a direction d: by g·d. Measured, it is (L(w + ε d) - L(w - ε d)) / 2ε. Two
directions are tried: along the gradient itself, where a wrong length shows, and a random one, where a wrong direction
does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.models.memory import TABLES
from tinygpt.core.models.parameters import parameters
from tinygpt.engines.spec_player import plain_engine

EPSILON = 3e-5
# A central difference is off by ε² / 6 times a third derivative, and by the losses' rounding over ε: some 16 operations
# of 2^-53 each on a loss of at most 8. The third derivative is of the gradient's size, but under a norm of q and k,
# which divides it by the square of what it norms: by 0.03², where a head is narrow.
WITHIN = 1e-6  # of the gradient's length
ROUNDING = 16 * 2.0**-53 * 8 / EPSILON


class Checked:
    """Of a parameter: the length of its gradient, and the larger of two errors."""

    def __init__(self, name: str, length: float, error: float) -> None:
        self.name, self.length, self.error = name, length, error

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
    return list(gradients_checked(small(config), text, seed))


def gradients_checked(config: RunConfig, text: bytes, seed: int = 0) -> Iterator[Checked]:
    """One after the other, of the model as it is."""
    engine = plain_engine(config)
    run_now(engine.load_corpus(text, b""))
    rng = np.random.default_rng(seed)
    weights = engine.player.view("live" if config.train.average else "weights")
    weights += rng.normal(size=weights.shape) * 0.1  # away from start values, where many gradients are alike
    if engine.memory.has(TABLES):
        tables = engine.player.view(TABLES)
        tables += rng.normal(size=tables.shape) * 0.1
    run_now(engine.set_step(0))
    run_now(engine.player.run("gradient", 1))
    gradient = engine.player.view("grads").copy()
    moves = {move.name: move for move in engine.memory.lowered.memory.layout.moves}
    for move in [moves[name] for name in backward_order(engine.config)]:
        end = move.start + move.size
        length = float(np.linalg.norm(gradient[move.start : end]))
        error = 0.0
        for direction in (gradient[move.start : end], rng.normal(size=move.size)):
            unit = direction / (np.linalg.norm(direction) or 1.0)
            kept, losses = weights[move.start : end].copy(), []
            for sign in (1, -1):
                weights[move.start : end] = kept + sign * EPSILON * unit
                losses.append(loss_of(engine))
            weights[move.start : end] = kept
            measured = (losses[0] - losses[1]) / (2 * EPSILON)
            error = max(error, abs(measured - float(gradient[move.start : end] @ unit)))
        yield Checked(move.name, length, error)


def backward_order(config: RunConfig) -> list[str]:
    """Parameters in the order in which the backward pass reaches them."""
    names = [row.name for row in parameters(config.model)]
    inside = [name for name in names if name.startswith("blocks.")]
    last = [name for name in names if name.startswith(("ln_final", "lm_head"))]
    return last[::-1] + inside[::-1] + [name for name in names if name not in inside + last]


def loss_of(engine: ProgramEngine) -> float:
    """Of one batch, always the same: the program up to its loss."""
    run_now(engine.set_step(0))
    ops = engine.player.lowered.programs["gradient"].ops
    last = [op.kernel for op in ops].index("mean_loss")
    engine.player.play("gradient", ops[: last + 1])
    return float(engine.player.view("loss")[0])
