"""Where two records of a training step part: what every op of it wrote, side by side. It runs in a lab's room, too."""
# ruff: noqa: B905, RUF005 (MicroPython's zip takes no strict, and it has no [*a])

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from tinygpt.core.engine.contract import run_now
from tinygpt.core.ops.op import bits_float

HOSTS = ("input", "corpus", "frozen")  # kinds of tensors that no op writes

# An op of a step: (name, array) of what it wrote, (name, array or number) of what a host or a setting gave it.
Written = namedtuple("Written", ("op", "values", "given"))
# place: of the op in the step's program, from 0; -1 where the runs began with other weights.  largest: the largest
# distance between two entries of the tensor, NaN where they cannot be compared.  share: of how many there is any.
# because: what the two ops were given that differs although no op before wrote it.
Difference = namedtuple("Difference", ("step", "place", "op", "tensor", "shape", "largest", "share", "because"))


def recorded(engine: Any) -> list[Any]:
    """Every op of the next step on the specification's engine, with copies."""
    done: list[Any] = []

    def after(mode: str, op: Any) -> None:
        values = [(tensor.name, np.array(engine.player.array(mode, tensor))) for tensor in op.writes()]
        inputs = [tensor for tensor in op.reads() if tensor.kind in HOSTS]
        given: list[tuple[str, Any]] = [(tensor.name, np.array(engine.player.array(mode, tensor))) for tensor in inputs]
        given += list(zip(op.declared.dims, op.dims))
        given += list(zip(op.declared.scalars, [bits_float(bits) for bits in op.scalars]))
        done.append(Written(op.kernel, values, given))

    engine.player.after = after
    run_now(engine.train(1))
    engine.player.after = None
    return done


def at_the_start(one: Any, other: Any) -> Any:
    """Of the weights that two runs begin with; None where they are equal."""
    if len(one) != len(other):
        because = [f"{len(one):,} and {len(other):,} parameters"]
        return Difference(0, -1, "start values", "weights", (len(one),), float("nan"), 1.0, because)
    if np.array_equal(one, other):
        return None
    largest, share = measured(one, other)
    return Difference(0, -1, "start values", "weights", one.shape, largest, share, [])


def parting(step: int, one: list[Any], other: list[Any]) -> Any:
    """The first op of a step that wrote another thing; None where there is none."""
    for place, (a, b) in enumerate(zip(one, other)):
        nothing = float("nan")
        if [a.op] + names(a) != [b.op] + names(b):
            because = [f"the programs part: {named(a)} and {named(b)}"]
            return Difference(step, place, a.op, a.values[0][0], (), nothing, 1.0, because)
        for (name, value), (_, its) in zip(a.values, b.values):
            if value.shape != its.shape:
                because = [f"shapes {value.shape} and {its.shape}"]
                return Difference(step, place, a.op, name, value.shape, nothing, 1.0, because)
            largest, share = measured(value, its)
            if share:
                return Difference(step, place, a.op, name, value.shape, largest, share, causes(a, b))
    return None


def spread(one: list[Any], other: list[Any]) -> list[list[Any]]:
    """Of every tensor that a step writes, how far it is off at most: [op, tensor, distance]; None: it has no number.

    It ends where the programs part.
    """
    rows = []
    for a, b in zip(one, other):
        if [a.op] + names(a) != [b.op] + names(b):
            break
        for (name, value), (_, its) in zip(a.values, b.values):
            off = measured(value, its)[0] if value.shape == its.shape else float("nan")
            rows.append([a.op, name, off if off == off and off - off == 0 else None])
    return rows


def names(written: Any) -> list[str]:
    return [name for name, _ in written.values]


def named(written: Any) -> str:
    return f"{written.op} → {', '.join(names(written))}"


def causes(one: Any, other: Any) -> list[str]:
    """What a host or a setting put in, where it differs."""
    said = []
    theirs: dict[str, Any] = dict(other.given)
    for name, a in one.given:
        b: Any = theirs.get(name)
        if hasattr(a, "shape") and hasattr(b, "shape"):
            if not np.array_equal(a, b):
                said.append(f"its input '{name}' holds other numbers")
        elif a != b:
            said.append(f"{name} is {shown(a)} and {shown(b)}")
    return said


def shown(number: Any) -> str:
    if number is None:
        return "not there"
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def measured(one: Any, other: Any) -> tuple[float, float]:
    """The largest distance, and the share of entries that differ; two that are no number are equal."""
    a, b = one.astype(np.float64).reshape(-1), other.astype(np.float64).reshape(-1)
    a_is, b_is = a == a, b == b
    unequal = (a != b) & (a_is | b_is)
    count = int(unequal.sum())
    if not count:
        return 0.0, 0.0
    both = a_is & b_is
    largest = float(np.abs(a[both] - b[both]).max()) if both.any() else float("nan")
    return largest, count / len(a)
