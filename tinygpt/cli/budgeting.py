"""`train --minutes`: the run that makes the most of the time is found by measuring, and its loss is foretold."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from tinygpt.cli.display import rate
from tinygpt.cli.output import Output
from tinygpt.core.advice.choose import Asked, Option, Survey, sizes
from tinygpt.core.advice.facts import option_facts, tokens_of, verdict
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

# Settings that may be stated beside --minutes; all others are the recipe's, or chosen.
FREE = ("batch", "dropout", "seed", "val_fraction", "keep_every")
LONGEST = 24 * 60  # minutes
AROUND = 2.0  # seconds that the command takes before it can look at a clock, and when the run has ended, for its curve


class Minutes(NamedTuple):
    """What was asked for: the time, from `began` on, a size if one was stated, and settings that stay as they are."""

    minutes: float
    began: float  # on time.perf_counter
    preset: str | None
    stated: dict[str, Any]


class Foreseen(NamedTuple):
    option: Option
    deadline: float
    text: TextFacts

    def pace(self) -> Pace:
        return Pace(time.perf_counter(), self.deadline, self.option)

    def verdict(self, run: RunConfig, reached: float) -> dict[str, Any]:
        return verdict(self.option, self.text, run, reached)


def asked_minutes(
    minutes: float, preset: str | None, recipe: str | None, changes: dict[str, dict[str, Any]], others: dict[str, Any]
) -> Minutes:
    """What `train` was told, once it agrees with itself. `others` are flags that a budget has no use for."""
    if not 0 < minutes <= LONGEST:
        raise TinyGPTError(f"--minutes must be above 0 and at most {LONGEST}, not {minutes:g}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TinyGPTError("--minutes is not for torchrun: its processes would have to agree on the time")
    for flag, value in others.items():
        if value is not None:
            raise TinyGPTError(f"{flag} does not go with --minutes, which chooses a new run; keep one of the two")
    if recipe not in (None, RECIPE):
        raise TinyGPTError(f"--minutes knows what to expect of the recipe {RECIPE} alone: leave out --recipe")
    if preset is not None and preset not in sizes():
        raise TinyGPTError(f"--minutes does not know what to expect of '{preset}'{instead(preset, sizes())}")
    stated = changes["model"] | changes["train"]
    for name in stated:
        if name not in FREE:
            raise TinyGPTError(
                f"{name} does not go with --minutes, which chooses it; what may be stated is the preset, "
                f"{', '.join(FREE)}"
            )
    return Minutes(minutes, time.perf_counter(), preset, stated)


def foresee(asked: Minutes, settings: TrainSettings, texts: Texts, output: Output) -> tuple[TrainSettings, Foreseen]:
    """Measure, choose and say what was chosen."""
    if is_task(settings.data.name):
        raise TinyGPTError("--minutes knows what to expect of prose, not of a task: state --preset and --steps instead")
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

    request = Asked(text, len(texts.val), names, asked.stated, settings.sample.tokens)
    with output.console.status(Text("measuring")) as status:
        survey = Survey(
            request,
            opened,
            time.perf_counter,
            deadline,
            lambda option: status.update(Text(f"measuring; {option.preset} done")),
        )
        best = run_now(survey.choose())
    tell(asked, text, survey.options, best, device, output)
    chosen = replace(settings, preset=best.preset, recipe=RECIPE, run=best.run, engine=choice)
    return chosen, Foreseen(best, deadline, text)


def settled(settings: TrainSettings, seconds: float) -> EngineChoice:
    """The engine for a run whose size is not known yet: for as many steps as the CPU would do in the time."""
    run = settings.run
    start, step = (seconds_of("native", run, Work(steps), cores()) for steps in (0, 1))
    return settle(settings.engine, run, Work(max(0.0, seconds - start) / (step - start))).choice


def tell(asked: Minutes, text: TextFacts, options: list[Option], best: Option, device: str, output: Output) -> None:
    if output.json:
        event = {"event": "budget", "step": 0, "minutes": asked.minutes, "hardness": text.hardness, "device": device}
        facts = {"options": [option_facts(option, text) for option in options], "chosen": option_facts(best, text)}
        output.display("").event(event | facts)
    output.console.print(table_of(options, best, text))
    output.say()
    train, loss = best.run.train, best.prediction
    why = "expected to learn most of them" if len(options) > 1 else "expected to end"
    output.say(f"{best.preset} is {why}: at a validation loss of {loss.loss:.2f} ({loss.low:.2f} to {loss.high:.2f}).")
    if train.steps < best.all_steps:
        output.say(
            f"It will be done earlier: there is time for {best.all_steps:,} steps, but behind {train.steps:,} it would "
            f"only learn the text by heart."
        )
    output.say()


def table_of(options: list[Option], best: Option, text: TextFacts) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("measured", "batch", "ms per step", "speed", "steps", "tokens", "epochs", "expected"):
        table.add_column(name, justify="left" if name == "measured" else "right")
    for option in options:
        batch, tokens = option.run.train.batch, tokens_of(option)
        chosen = (option.preset, batch) == (best.preset, best.run.train.batch)
        table.add_row(
            Text.assemble("▶ " if chosen else "  ", (option.preset, "bold" if chosen else "")),
            f"{batch:,}",
            f"{1000 * option.speed.step:.3g}",
            rate(batch * option.run.model.ctx / option.speed.step),
            f"{option.run.train.steps:,}",
            f"{tokens:,}",
            f"{tokens / text.train_bytes:.1f}",
            f"{option.prediction.loss:.2f}",
        )
    return table
