"""What a lab is: an op whose backward, or whose update, the reader writes in a few lines of NumPy."""

import math

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Given = dict[str, Any]  # a kernel's arguments by name


class Lab:
    """An op to derive, which is easy, medium or hard. What the reader's function `called` takes is in `starter`; `adapted`
    calls it with a kernel's arguments."""

    def __init__(
        self,
        name: str,
        title: str,
        degree: str,
        kernel: str,
        called: str,
        statement: str,
        starter: str,
        solution: str,
        hints: "tuple[str, ...]",
        near: "tuple[tuple[str, str], ...]",
        cases: "tuple[dict[str, int], ...]",
        given: "Callable[[Any, dict[str, int]], Given]",
        adapted: "Callable[[Callable[..., Any], Given], None]",
        outputs: "dict[str, str]",
        value: "Callable[[Given], float] | None" = None,
        changes: "dict[str, Any] | None" = None,
    ) -> None:
        """`near` has pairs (part of the solution, what stands there instead) that must not pass. `given` makes up the
        arguments of a call of these sizes. `outputs` has, by output, the argument whose gradient it is (or nothing), and
        `value` the number whose gradients they are. `changes` are settings with which a model uses the op."""
        self.name, self.title, self.degree, self.kernel, self.called = name, title, degree, kernel, called
        self.statement, self.starter, self.solution, self.hints = statement, starter, solution, hints
        self.near, self.cases, self.given, self.adapted = near, cases, given, adapted
        self.outputs, self.value, self.changes = outputs, value, changes or {}

    def facts(self) -> "dict[str, Any]":
        return {
            "name": self.name,
            "title": self.title,
            "degree": self.degree,
            "statement": self.statement,
            "starter": self.starter,
            "hints": list(self.hints),
            "kernel": self.kernel,
            "outputs": sorted(self.outputs),
        }


def function_in(source: str, called: str) -> "Callable[..., Any]":
    """The reader's, out of what was typed."""
    names: dict[str, Any] = {"np": np, "math": math, "erf": np.vectorize(math.erf, otypes=[np.float64])}
    exec(source, names)
    if called not in names:
        raise NameError(f"name '{called}' isn't defined")
    found: Callable[..., Any] = names[called]
    return found


def put(given: "Given", name: str, value: "Any") -> None:
    """An output, as the kernel's own would be put: added where it accumulates, with the residual where there is one."""
    out = given[name]
    if out is None:
        return
    if tuple(getattr(value, "shape", ())) != tuple(out.shape):
        shape = tuple(getattr(value, "shape", ()))
        raise ValueError(f"{name} has the shape {list(out.shape)}, and what was returned for it {list(shape)}")
    if name == "dx" and given.get("dresidual") is not None:
        value = value + given["dresidual"]
    if given.get("accumulate") or (name == "dwte" and given.get("tied")):
        value = value + out
    out[...] = value


def putting(*names: str) -> "Callable[[Callable[..., Any], Given, dict[str, Any]], None]":
    """Calls the function and puts what it returns, in this order."""

    def call(function: "Callable[..., Any]", given: "Given", arguments: "dict[str, Any]") -> None:
        made = function(**arguments)
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(names):
            raise ValueError(f"it returns {len(made)} values; {len(names)} are asked for: {', '.join(names)}")
        for i in range(len(names)):
            put(given, names[i], made[i])

    return call


def taking(outputs: "tuple[str, ...]", *arguments: str) -> "Callable[[Callable[..., Any], Given], None]":
    """The reader's function takes these of the kernel's arguments, and returns these outputs."""
    call = putting(*outputs)
    return lambda function, given: call(function, given, {name: given[name] for name in arguments})


def normal(rng: "Any", *shape: int) -> "Any":
    return rng.normal(size=shape)
