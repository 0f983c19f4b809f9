"""What the reader wrote, held against finite differences and the specification; and a tiny model that trains with it."""

import json
import time

import numpy as np

from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.ops.op import KERNELS
from tinygpt.core.passes import OPTIONAL
from tinygpt.core.presets import preset
from tinygpt.engines.spec_player import plain_engine
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.comparison import brief, told
from tinygpt.labs.derive import elementwise, ends, maps, norms
from tinygpt.labs.derive.lab import Lab, function_in
from tinygpt.labs.room import RATES, TRAINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tinygpt.labs.derive.lab import Given

LABS = maps.LABS + elementwise.LABS + norms.LABS + ends.LABS
UNIT = 2.0**-53
STEP = 1e-5  # of finite differences, whose error is of its square, and of the rounding over it
MEASURED_WITHIN = 1e-6


def lab_named(name: str) -> Lab:
    return next(lab for lab in LABS if lab.name == name)


def copied(given: "Given") -> "Given":
    return {name: given[name].copy() if hasattr(given[name], "copy") else given[name] for name in given}


def of_kernel(lab: Lab, given: "Given") -> "Given":
    declared = KERNELS[lab.kernel]
    return {name: given[name] for name in declared.tensors + declared.dims + declared.scalars if name in given}


def bound_of(given: "Given", dims: "dict[str, int]") -> float:
    """How far two ways of adding up the same may be apart: each term is at most the product of what goes into it, and
    sums have at most as many terms as all sizes together."""
    size = 1.0
    for name in given:
        if hasattr(given[name], "shape") and given[name].dtype.kind == "f" and given[name].size:
            size *= 1 + float(np.abs(given[name]).max())
    return 8 * UNIT * (8 + sum(dims.values())) * size


def differences(lab: Lab, given: "Given", name: str) -> "Any":
    """The gradient of the lab's number by one of its arguments, measured."""
    assert lab.value is not None
    there = given[name].reshape(-1)
    found = np.zeros(there.shape)
    for i in range(there.shape[0]):
        kept, values = float(there[i]), []
        for sign in (1, -1):
            there[i] = kept + sign * STEP
            values.append(lab.value(given))
        there[i] = kept
        found[i] = (values[0] - values[1]) / (2 * STEP)
    return found.reshape(given[name].shape)


def against_oracles(lab: Lab, function: "Callable[..., Any]") -> "Iterator[dict[str, Any]]":
    """Each shape against the specification, and the first of them against finite differences, too."""
    for number in range(len(lab.cases)):
        dims = lab.cases[number]
        given = lab.given(np.random.default_rng(number + 1), dims)
        wanted, got = copied(given), copied(given)
        bound = bound_of(given, dims)
        SPEC[lab.kernel](**of_kernel(lab, wanted))
        lab.adapted(function, got)
        for name in lab.outputs:
            if number == 0 and lab.value is not None:
                measured = differences(lab, copied(given), lab.outputs[name])
                size = 1 + float(np.abs(measured).max())
                yield told("finite differences", name, dims, got[name], measured, MEASURED_WITHIN * size)
            yield told("the specification", name, dims, got[name], wanted[name], bound)


class Derivation:
    """What came of each comparison, one after the other."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        lab = lab_named(asked["lab"])
        self.rows = against_oracles(lab, function_in(asked["source"], lab.called))

    def step(self) -> str:
        for row in self.rows:
            return json.dumps(row)
        return "null"


def seconds() -> float:
    """MicroPython has no perf_counter."""
    ticks = getattr(time, "ticks_us", None)
    return time.perf_counter() if ticks is None else float(ticks()) / 1e6


class DerivedRun:
    """A tiny model in which that op is the reader's, or without a source ours."""

    def __init__(self, request: str, digits: str) -> None:
        asked = json.loads(request)
        self.lab = lab_named(asked["lab"])
        self.function = function_in(asked["source"], self.lab.called) if asked["source"] else None
        settings = dict(dict(TRAINED, **RATES), steps=asked["steps"], **self.lab.changes)
        self.engine = plain_engine(preset("tiny", "classic").replace(**settings))
        self.engine.memory.without = tuple(OPTIONAL)  # ops as the model's text has them
        run_now(self.engine.load_corpus(bytes.fromhex(digits), b""))
        self.calls, self.taken = 0, 0.0

    def describe(self) -> str:
        model = self.engine.config.model
        return json.dumps({"model": model.describe(), "parameters": parameter_count(model)})

    def step(self) -> str:
        """Its step and loss, and the microseconds of a call of the op so far; null once all are done."""
        if self.engine.step >= self.engine.config.train.steps:
            return "null"
        kept = SPEC[self.lab.kernel]
        SPEC[self.lab.kernel] = self.timed(kept)
        try:
            run_now(self.engine.train(1))
        finally:
            SPEC[self.lab.kernel] = kept
        row = run_now(self.engine.read_metrics())[-1]
        return json.dumps([row.step, brief(row.loss), 1e6 * self.taken / max(1, self.calls)])

    def timed(self, ours: "Callable[..., None]") -> "Callable[..., None]":
        def call(**given: "Any") -> None:
            began = seconds()
            if self.function is None:
                ours(**given)
            else:
                self.lab.adapted(self.function, given)
            self.taken += seconds() - began
            self.calls += 1

        return call
