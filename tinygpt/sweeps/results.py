"""What came of the runs of a sweep: each one, and over the seeds of one combination of settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tinygpt.core.config import ModelConfig, TrainConfig
from tinygpt.sweeps.plan import RATES, SEED, Axis, Values, key_of, shown

FINISHED, EARLY, DIVERGED, FAILED = "finished", "early-stop", "diverged", "failed"


class Result(NamedTuple):
    """Of one run. A run whose loss left the track is a result too; its losses are those from before."""

    rung: int
    settings: Values  # what the sweep varies
    config: dict[str, Values]  # all settings: model, train
    parameters: int
    outcome: str
    reason: str = ""  # why it diverged or failed
    engine: str = ""  # and its device, in words
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training: without validations, and what came before the first step
    wall_seconds: float = 0.0  # of everything
    tokens_per_second: float = 0.0
    train_loss: float | None = None  # mean of the last steps
    val_loss: float | None = None  # the last validation's
    best_val: float | None = None
    best_step: int = 0
    text_loss: float | None = None  # of every held-out byte, where that was asked for
    curve: Sequence[tuple[int, float, float]] = ()  # of the validations: tokens seen, seconds of training, loss

    @property
    def sound(self) -> bool:
        return self.outcome in (FINISHED, EARLY)

    @property
    def loss(self) -> float:
        """By which runs are compared."""
        loss = self.best_val if self.text_loss is None else self.text_loss
        return loss if self.sound and loss is not None else math.inf

    @property
    def key(self) -> tuple[Any, ...]:
        return key_of(self.rung, self.settings)

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Result:
        """Of a line of results.jsonl; what is no such line is a TypeError, KeyError or ValueError."""
        curve = [(int(tokens), float(seconds), float(loss)) for tokens, seconds, loss in values["curve"]]
        made = cls(**{**values, "curve": curve})
        if not isinstance(made.settings, dict) or not isinstance(made.rung, int):
            raise TypeError("a result has a rung and settings")
        return made


class Standing(NamedTuple):
    """The runs of one combination of settings that differ in their seeds alone."""

    rung: int
    settings: Values  # without the seed
    results: list[Result]

    @property
    def sound(self) -> bool:
        return all(result.sound for result in self.results)

    @property
    def loss(self) -> float:
        return self.mean(lambda result: result.loss)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds."""
        return (
            statistics.stdev(result.loss for result in self.results) if self.sound and len(self.results) > 1 else None
        )

    def mean(self, of: Any) -> float:
        values = [of(result) for result in self.results]
        return sum(values) / len(values) if None not in values else math.inf


def standings(results: Iterable[Result]) -> list[Standing]:
    """Best first. A combination stands where its longest runs put it: later rungs come before earlier ones."""
    groups: dict[tuple[Any, ...], Standing] = {}
    for result in sorted(results, key=lambda result: result.rung):
        settings = {name: value for name, value in result.settings.items() if name != SEED}
        place = key_of(0, settings)
        if place not in groups or groups[place].rung < result.rung:
            groups[place] = Standing(result.rung, settings, [])
        groups[place].results.append(result)
    return sorted(groups.values(), key=lambda standing: (-standing.rung, standing.loss))


def edge_notes(over: Sequence[Axis], best: Standing) -> list[str]:
    """Where the best value is the smallest or the largest tried: beyond it may be a better one."""
    notes = []
    for axis in over:
        numbers = [value for value in axis.values if isinstance(value, (int, float))]
        if axis.name == SEED or len(numbers) < 2 or len(numbers) < len(axis.values):
            continue
        value = best.settings[axis.name]
        if value in (min(numbers), max(numbers)) and value not in bounds_of(axis.name):
            which, beyond = ("smallest", "smaller") if value == min(numbers) else ("largest", "larger")
            notes.append(f"the best {axis.name}, {shown(value)}, is the {which} tried: try {beyond} ones too")
    return notes


def bounds_of(name: str) -> tuple[float, ...]:
    """Of a setting's values: nothing lies beyond. Of a factor there are none."""
    if name == RATES:
        return ()
    return next((field.low, field.high) for field in (*ModelConfig.FIELDS, *TrainConfig.FIELDS) if field.name == name)
