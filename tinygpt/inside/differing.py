"""Which op of two runs differed first: both are trained in step, and the step in which they part is played op by op.

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
from tinygpt.core.ops.op import Op, bits_float
from tinygpt.engines.base import State
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.store.formats.checkpoint import vectors_of


class Side(NamedTuple):
    """A run: its settings, and the text that it trains on."""

    config: RunConfig
    text: bytes


class Difference(NamedTuple):
    """`largest` is the largest distance between two entries of the tensor, `share` of how many there is any."""

    step: int
    place: int  # of the op in the step's program, from 0; -1 where the runs began with other weights
    op: str
    tensor: str
    shape: tuple[int, ...]
    largest: float
    share: float
    because: list[str]  # what the two ops were given that differs although no op before wrote it


class Written(NamedTuple):
    op: Op
    values: dict[str, Any]
    given: dict[str, Any]


def first_difference(
    one: Side, other: Side, steps: int, told: Callable[[int], None] = lambda step: None
) -> Difference | None:
    """Of the first `steps` steps; None where the two are equal to the bit all the way."""
    sides = (one, other)
    engines = [opened(native_engine(side.config), side) for side in sides]
    try:
        before = [run_now(engine.export_state()) for engine in engines]
        if differ(*before):
            return at_the_start(before)
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


def at_the_start(states: list[State]) -> Difference:
    one, other = [state.w for state in states]
    if len(one) != len(other):
        because = [f"{len(one):,} and {len(other):,} parameters"]
        return Difference(0, -1, "start values", "weights", (len(one),), float("nan"), 1.0, because)
    return Difference(0, -1, "start values", "weights", one.shape, *measured(one, other), [])


def in_step(step: int, sides: tuple[Side, Side], states: list[State]) -> Difference | None:
    """Both sides' step, on the specification's engine: what each op wrote, side by side."""
    one, other = [played(side, state) for side, state in zip(sides, states, strict=True)]
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if [a.op.kernel, *a.values] != [b.op.kernel, *b.values]:
            because = [f"the programs part: {named(a)} and {named(b)}"]
            return Difference(step, place, a.op.kernel, next(iter(a.values)), (), float("nan"), 1.0, because)
        for name, value in a.values.items():
            if value.shape != b.values[name].shape:
                because = [f"shapes {value.shape} and {b.values[name].shape}"]
                return Difference(step, place, a.op.kernel, name, value.shape, float("nan"), 1.0, because)
            if not np.array_equal(value, b.values[name], equal_nan=value.dtype.kind == "f"):
                return Difference(
                    step, place, a.op.kernel, name, value.shape, *measured(value, b.values[name]), causes(a, b)
                )
    return None


def played(side: Side, state: State) -> list[Written]:
    """Every op of a step, with copies of what it wrote, and of what it was given that a host wrote."""
    engine = opened(spec_engine(side.config, state), side)
    done: list[Written] = []

    def after(mode: str, op: Op) -> None:
        values = {tensor.name: np.array(engine.player.array(mode, tensor)) for tensor in op.writes()}
        inputs = [tensor for tensor in op.reads() if tensor.kind in ("input", "corpus", "frozen")]
        given: dict[str, Any] = {tensor.name: np.array(engine.player.array(mode, tensor)) for tensor in inputs}
        given |= dict(zip(op.declared.dims, op.dims, strict=True))
        given |= dict(zip(op.declared.scalars, [bits_float(bits) for bits in op.scalars], strict=True))
        done.append(Written(op, values, given))

    engine.player.after = after
    run_now(engine.train(1))
    return done


def named(written: Written) -> str:
    return f"{written.op.kernel} → {', '.join(written.values)}"


def causes(one: Written, other: Written) -> list[str]:
    """What a host or a setting put in, where it differs."""
    said = []
    for name, a in one.given.items():
        b = other.given.get(name)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if not np.array_equal(a, b):
                said.append(f"its input {name} differs")
        elif a != b:
            said.append(f"{name} is {shown(a)} and {shown(b)}")
    return said


def shown(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}" if number is not None else "not there"


def measured(one: Any, other: Any) -> tuple[float, float]:
    a, b = one.astype(np.float64), other.astype(np.float64)
    return float(np.nanmax(np.abs(a - b))), float((a != b).mean())
