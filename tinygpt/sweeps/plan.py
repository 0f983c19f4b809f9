"""What a sweep tries: every combination of some settings, or by successive halving the better ones for longer."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.program_engine import UNPLANNED
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import DEFAULT_PRESET, cut_short, preset

PRESET, RECIPE, SEED = "preset", "recipe", "seed"
RATES = "rates"  # a factor of every learning rate that the recipe has, matrices' and n-gram tables' among them
LEARNING_RATES = ("lr", "min_lr", "matrix_lr", "ngram_lr")
MOST_RUNS = 10_000
SHORTEST = 10  # steps of a run that is to tell a good setting from a bad one
# Runs with different ones could not be compared.
FIXED = {
    "val_fraction": "runs that hold out different parts of the text cannot be compared; set it for all of them",
    "eval_batches": "validations of different sizes cannot be compared; set it for all of them",
}

Values = dict[str, Any]  # settings by name; `preset` and `recipe` may be among them


class Axis(NamedTuple):
    name: str
    values: tuple[Any, ...]


class Run(NamedTuple):
    rung: int
    settings: Values  # what the sweep varies
    config: RunConfig

    @property
    def key(self) -> tuple[Any, ...]:
        return key_of(self.rung, self.settings)

    @property
    def cost(self) -> float:
        """In proportion to its time, more or less."""
        train, model = self.config.train, self.config.model
        return float(parameter_count(model) * train.steps * train.batch * train.grad_accum * model.ctx)


class Rung(NamedTuple):
    number: int
    parts: int  # its runs have one part in so many of their steps
    keep: int  # so many of the best go on


def key_of(rung: int, settings: Values) -> tuple[Any, ...]:
    """By which a run is known again."""
    return (rung, *sorted(settings.items()))


@dataclass(frozen=True)
class Plan:
    """Settings of a run come from the preset and the recipe, then what is fixed for all, then the run's own."""

    over: tuple[Axis, ...]
    preset: str = DEFAULT_PRESET
    fixed: Values = field(default_factory=dict)
    halving: int = 0  # a rung's runs are so many times longer than those of the one before; 0: there is one rung
    whole_text: bool = False  # in the end the loss of every held-out byte is measured, and decides
    recipe: str = "classic"
    train_bytes: int | None = None  # of the text, once it is known

    def config(self, settings: Values) -> RunConfig:
        values = {**self.fixed, **settings}
        name, recipe = values.pop(PRESET, self.preset), values.pop(RECIPE, self.recipe)
        factor = values.pop(RATES, 1.0)
        config = cut_short(preset(name, recipe, self.train_bytes), values)
        return config if factor == 1.0 else config.replace(**scaled_rates(config, factor))

    def candidates(self) -> list[Values]:
        """Every combination, seeds apart; the last setting changes fastest."""
        axes = [axis for axis in self.over if axis.name != SEED]
        names = [axis.name for axis in axes]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*[a.values for a in axes])]

    def seeds(self) -> list[Values]:
        return [{SEED: seed} for axis in self.over if axis.name == SEED for seed in axis.values] or [{}]

    def rungs(self) -> list[Rung]:
        left = len(self.candidates())
        kept = [left]
        while self.halving and left > 1:
            left = max(1, left // self.halving)
            kept.append(left)
        last = len(kept) - 1
        return [Rung(i, self.halving ** (last - i), kept[min(i + 1, last)]) for i in range(len(kept))]

    def runs(self, rung: Rung, candidates: Iterable[Values]) -> list[Run]:
        """Each candidate with each seed; next to each other those that an engine can do without planning anew."""
        made = [
            Run(rung.number, {**candidate, **seed}, shortened(self.config({**candidate, **seed}), rung.parts))
            for candidate in candidates
            for seed in self.seeds()
        ]
        places: dict[str, int] = {}
        for run in made:
            places.setdefault(planned(run.config), len(places))
        return sorted(made, key=lambda run: places[planned(run.config)])

    def total_cost(self) -> float:
        """Of all runs; which of them will go on is not known, so a mean one."""
        candidates = self.candidates()
        whole = [run.cost for run in self.runs(self.rungs()[-1], candidates)]
        counts = [len(candidates), *[rung.keep for rung in self.rungs()[:-1]]]
        shares = [count / len(candidates) / rung.parts for count, rung in zip(counts, self.rungs(), strict=True)]
        return sum(whole) * sum(shares)

    def check(self) -> None:
        """Refuse, before anything is begun, what could not be run or would tell nothing."""
        names = [axis.name for axis in self.over]
        if not names:
            raise TinyGPTError("a sweep needs something to vary, as in --over lr=1e-3,3e-3,1e-2")
        for axis in self.over:
            if names.count(axis.name) > 1:
                raise TinyGPTError(f"{axis.name} is given twice; list all of its values behind one --over")
            if axis.name in FIXED:
                raise TinyGPTError(f"a sweep cannot be over {axis.name}: {FIXED[axis.name]}")
            if axis.name in self.fixed:
                raise TinyGPTError(f"{axis.name} is fixed for all runs and also swept over; keep one of the two")
            if len(set(axis.values)) < len(axis.values):
                raise TinyGPTError(f"{axis.name} has a value twice: {', '.join(map(str, axis.values))}")
        count = len(self.candidates()) * len(self.seeds())
        if count > MOST_RUNS:
            raise TinyGPTError(f"these are {count:,} runs, more than {MOST_RUNS:,}; vary fewer settings at a time")
        if self.halving and (self.halving < 2 or len(self.candidates()) < 2):
            raise TinyGPTError("halving takes 2 or more, and more than one combination of settings to choose from")
        for candidate in self.candidates():
            try:
                self.config({**candidate, **self.seeds()[0]})
            except TinyGPTError as fault:
                raise TinyGPTError(f"a run with {described(candidate)} cannot be: {fault}") from None
        first = self.rungs()[0]
        for run in self.runs(first, self.candidates()):
            self.check_run(run, first.parts)

    def check_run(self, run: Run, parts: int) -> None:
        if run.config.train.eval_every == 0:
            raise TinyGPTError("a sweep compares validation losses: eval_every must be above 0")
        if parts > 1 and run.config.train.steps < SHORTEST:
            raise TinyGPTError(
                f"the first of {len(self.rungs())} rounds would have {run.config.train.steps} of "
                f"{self.config(run.settings).train.steps} steps, which tells little; use more steps, fewer "
                f"combinations, or a smaller --halving"
            )

    def as_dict(self) -> dict[str, Any]:
        return {
            "preset": self.preset,
            "recipe": self.recipe,
            "halving": self.halving,
            "whole_text": self.whole_text,
            "fixed": self.fixed,
            "over": {axis.name: list(axis.values) for axis in self.over},
        }


def scaled_rates(config: RunConfig, factor: float) -> Values:
    """To seven digits, as a command states them."""
    return {name: float(f"{factor * getattr(config.train, name):.7g}") for name in LEARNING_RATES}


def described(settings: Values) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in settings.items()) or "as it is"


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def shortened(config: RunConfig, parts: int) -> RunConfig:
    """A run of one part of the steps, whose warm-up, schedule and validations are fitted to it.

    A schedule that is cut off halfway would favour rates that are too low: a rung's runs are runs of their own.
    """
    if parts == 1:
        return config
    train = config.train
    warmup, every = -(-train.warmup // parts), max(1, train.eval_every // parts)
    return config.replace(steps=max(1, train.steps // parts), warmup=warmup, eval_every=every)


def planned(config: RunConfig) -> str:
    """The same for runs that need the same programs."""
    unplanned = preset(DEFAULT_PRESET).train
    return repr(config.replace(**{name: getattr(unplanned, name) for name in UNPLANNED}))
