"""Two runs in step, each in a room of its own, for their sources may differ.

What the ops of one's step wrote crosses as text, and is compared where the other is (inside/parting.py).
"""
# ruff: noqa: B905 (MicroPython's zip takes no strict)

import json
from array import array

import numpy as np

from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.parameters import parameter_count
from tinygpt.engines.spec_player import plain_engine
from tinygpt.inside.parting import Written, at_the_start, parting, recorded, spread
from tinygpt.labs.room import config_of, trained_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def packed(value: "Any") -> "list[Any]":
    """An array or a number, to the bit: [kind, shape, its numbers as hexadecimal digits]."""
    if value is None:
        return ["none", [], ""]
    if hasattr(value, "shape"):
        numbers = [float(number) for number in value.reshape(-1).tolist()]
        return ["array", list(value.shape), bytes(array("d", numbers)).hex()]
    return ["int" if isinstance(value, int) else "float", [], bytes(array("d", [value])).hex()]


def unpacked(row: "list[Any]") -> "Any":
    kind, shape, digits = row
    if kind == "none":
        return None
    numbers = list(array("d", bytes.fromhex(digits)))
    if kind == "array":
        return np.array(numbers, dtype=np.float64).reshape(tuple(shape))
    return int(numbers[0]) if kind == "int" else numbers[0]


def pairs(rows: "list[tuple[str, Any]]") -> "list[list[Any]]":
    return [[name] + packed(value) for name, value in rows]


class Walk:
    """A tiny run on the specification, step by step; of each step all that its ops wrote is kept until the next."""

    def __init__(self, request: str, digits: str) -> None:
        """`digits` are the text's bytes as hexadecimal digits."""
        asked = json.loads(request)
        usual = trained_config(
            config_of({"preset": asked["preset"], "recipe": asked["recipe"], "bytes": asked["bytes"]})
        )
        self.config = usual.replace(steps=asked["steps"], seed=0).replace(**asked["changes"])
        self.engine = plain_engine(self.config)
        run_now(self.engine.load_corpus(bytes.fromhex(digits), b""))
        self.done: list[Any] = []

    def describe(self) -> str:
        model = {"model": self.config.model.describe(), "parameters": parameter_count(self.config.model)}
        return json.dumps(dict(model, weights=self.weights().hex(), settings=self.config.values()))

    def weights(self) -> bytes:
        return bytes(run_now(self.engine.player.read(self.engine.memory.state_places())))

    def begin(self, weights: str) -> str:
        """Where the other's start values differ from these, as `parted` says it; null where they do not."""
        one, other = [np.frombuffer(data, dtype=np.float32) for data in (bytes.fromhex(weights), self.weights())]
        return told(at_the_start(one, other), [])

    def step(self) -> str:
        """The next one: what its ops wrote and were given, as two texts."""
        self.done = recorded(self.engine)
        metrics = run_now(self.engine.read_metrics())[-1]
        row = {"step": metrics.step, "loss": metrics.loss}
        row["values"] = json.dumps([[op, pairs(values)] for op, values, _ in self.done])
        row["given"] = json.dumps([pairs(given) for _, _, given in self.done])
        return json.dumps(row)

    def parted(self, step: int, values: str, given: str) -> str:
        """Where the other's step, which comes first, and this one part; null where they do not."""
        others = []
        for (op, wrote), had in zip(json.loads(values), json.loads(given)):
            others.append(Written(op, [(row[0], unpacked(row[1:])) for row in wrote],
                                  [(row[0], unpacked(row[1:])) for row in had]))  # fmt: skip
        return told(parting(step, others, self.done), spread(others, self.done))


def told(found: "Any", rows: "list[list[Any]]") -> str:
    if found is None:
        return "null"
    step, place, op, tensor, shape, largest, share, because = found
    row = {"step": step, "place": place, "op": op, "tensor": tensor, "shape": list(shape), "share": share}
    row.update({"largest": largest if largest == largest else None, "because": because, "spread": rows})
    return json.dumps(row)
