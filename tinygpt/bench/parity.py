"""Two engines from the same seed, step by step: how far their losses and weights drift apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygpt.bench.workload import Run
from tinygpt.core.capsule.compare import drift
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.models.parameters import parameters


class Parity(NamedTuple):
    losses: list[tuple[float, float]]
    drifts: list[float]  # |a - b| / b, step by step
    weight_difference: float  # the largest of any weight at the end
    weight_name: str  # and the tensor it is in

    @property
    def drift(self) -> float:
        return max(self.drifts)

    def as_dict(self) -> dict[str, Any]:
        return {
            "steps": len(self.drifts),
            "max_drift": self.drift,
            "weight_difference": self.weight_difference,
            "weight_name": self.weight_name,
            "losses": self.losses,
            "drifts": self.drifts,
        }


def parity(config: RunConfig, first: Engine, second: Engine, steps: int) -> Parity:
    a, b = Run(config, first), Run(config, second)
    losses = [(x.loss, y.loss) for x, y in zip(a.advance(steps), b.advance(steps), strict=True)]
    w = np.abs(run_now(first.export_state()).w - run_now(second.export_state()).w)
    worst = int(np.argmax(w))
    name = next(p.name for p in parameters(config.model) if p.offset <= worst < p.offset + p.size)
    drifts = [drift(x, y) for x, y in losses]
    return Parity(losses, drifts, float(w[worst]), name)
