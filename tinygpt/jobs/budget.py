"""A run for a stated time: the one that makes the most of it is found by measuring, and its loss is predicted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from tinygpt.core.advice.choose import SOME, Asked, Option, Survey, sizes
from tinygpt.core.advice.facts import verdict
from tinygpt.core.advice.hardness import hardness
from tinygpt.core.advice.law import RECIPE, TextFacts
from tinygpt.core.advice.pace import Pace
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.tasks import is_task
from tinygpt.engines.auto import Work
from tinygpt.engines.auto import seconds as seconds_of
from tinygpt.engines.machine import cores
from tinygpt.engines.select import EngineChoice, make_engine, settle
from tinygpt.jobs.settings import TrainSettings
from tinygpt.jobs.texts import Texts

# Settings that may be stated beside the minutes; all others are the recipe's, or chosen.
FREE = ("batch", "dropout", "seed", "val_fraction", "keep_every")
LONGEST = 24 * 60  # minutes
AROUND = 2.0  # seconds that a command takes before it can look at a clock, and when the run has ended, for its curve


class Minutes(NamedTuple):
    """What was asked for: the time, from `began` on, a size if one was stated, and settings that stay as they are."""

    minutes: float
    began: float  # on time.perf_counter
    preset: str | None
    stated: dict[str, Any]


class Foreseen(NamedTuple):
    option: Option
    options: list[Option]  # all that were measured
    deadline: float
    text: TextFacts
    device: str

    def pace(self) -> Pace:
        return Pace(time.perf_counter(), self.deadline, self.option)

    def verdict(self, run: RunConfig, reached: float) -> dict[str, Any]:
        return verdict(self.option, self.text, run, reached)


def asked_minutes(
    minutes: float, preset: str | None, recipe: str | None, changes: dict[str, dict[str, Any]], others: dict[str, Any]
) -> Minutes:
    """What `train` was told, once it agrees with itself. `others` are flags that a budget has no use for."""
    if not 0 < minutes <= LONGEST:
        raise TinyGPTError(f"minutes must be above 0 and at most {LONGEST}, not {minutes:g}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TinyGPTError("minutes are not for torchrun: its processes would have to agree on the time")
    for flag, value in others.items():
        if value is not None:
            raise TinyGPTError(f"{flag} does not go with minutes, which choose a new run; keep one of the two")
    if recipe not in (None, RECIPE):
        raise TinyGPTError(
            f"what to expect is known of the recipe {RECIPE} alone: leave out the recipe, or the minutes"
        )
    if preset is not None and preset not in sizes():
        raise TinyGPTError(f"it is not known what to expect of '{preset}'{instead(preset, sizes())}")
    stated = changes["model"] | changes["train"]
    for name in stated:
        if name not in FREE:
            raise TinyGPTError(
                f"{name} does not go with minutes, which choose it; what may be stated is the preset, {', '.join(FREE)}"
            )
    return Minutes(minutes, time.perf_counter(), preset, stated)


def foresee(
    asked: Minutes, settings: TrainSettings, texts: Texts, measured: Callable[[Option], None]
) -> tuple[TrainSettings, Foreseen]:
    """Measure and choose. `measured` hears of each size."""
    if is_task(settings.data.name):
        raise TinyGPTError("what to expect is known of prose, not of a task: state preset and steps instead of minutes")
    deadline = asked.began + 60 * asked.minutes - AROUND
    text = TextFacts(len(texts.train), hardness(texts.train, texts.val))
    names = sizes() if asked.preset is None else [asked.preset]
    device = ""
    choice = settled(settings, deadline - time.perf_counter())

    async def opened(run: RunConfig) -> Engine:
        nonlocal device
        engine = make_engine(run, choice)
        await engine.load_corpus(texts.train, texts.val)
        device = engine.describe()
        return engine

    request = Asked(text, len(texts.val), names, asked.stated, settings.sample.tokens, *SOME)
    survey = Survey(request, opened, time.perf_counter, deadline, measured)
    best = run_now(survey.choose())
    chosen = replace(settings, preset=best.preset, recipe=RECIPE, run=best.run, engine=choice)
    return chosen, Foreseen(best, survey.options, deadline, text, device)


def settled(settings: TrainSettings, seconds: float) -> EngineChoice:
    """The engine for a run whose size is not known yet: for as many steps as the CPU would do in the time."""
    run = settings.run
    start, step = (seconds_of("native", run, Work(steps), cores()) for steps in (0, 1))
    return settle(settings.engine, run, Work(max(0.0, seconds - start) / (step - start))).choice
