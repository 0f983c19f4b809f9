"""Which op of two runs differed first: both are trained in step, and the step in which they part is played op by op
(parting.py).

Training amplifies: after a hundred steps every number differs, and says nothing. The first tensor that differs names
the cause, or is next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.engines.base import State
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.inside.parting import at_the_start, parting, recorded
from tinygpt.store.formats.checkpoint import vectors_of


class Side(NamedTuple):
    """A run: its settings, and the text that it trains on."""

    config: RunConfig
    text: bytes


def first_difference(one: Side, other: Side, steps: int, told: Callable[[int], None] = lambda step: None) -> Any:
    """A `parting.Difference` of the first `steps` steps; None where the two are equal to the bit all the way."""
    sides = (one, other)
    engines = [opened(native_engine(side.config), side) for side in sides]
    try:
        before = [run_now(engine.export_state()) for engine in engines]
        if differ(*before):
            return at_the_start(before[0].w, before[1].w)
        for step in range(1, steps + 1):
            for engine in engines:
                run_now(engine.train(1))
                run_now(engine.read_metrics())
            after = [run_now(engine.export_state()) for engine in engines]
            told(step)
            if differ(*after):
                return in_step(step, sides, before)
            before = after
    finally:
        for engine in engines:
            run_now(engine.close())
    return None


def opened(engine: ProgramEngine, side: Side) -> ProgramEngine:
    run_now(engine.load_corpus(side.text, b""))
    return engine


def differ(one: State, other: State) -> bool:
    vectors = [vectors_of(state) for state in (one, other)]
    return len(vectors[0]) != len(vectors[1]) or any(
        a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(*vectors, strict=False)
    )


def in_step(step: int, sides: tuple[Side, Side], states: list[State]) -> Any:
    """Both sides' step, on the specification's engine: what each op wrote, side by side."""
    one, other = [
        recorded(opened(spec_engine(side.config, state), side)) for side, state in zip(sides, states, strict=True)
    ]
    return parting(step, one, other)
