"""What a step does, in numbers that a fault anywhere in it changes: those of mended sources beside the original's.

Finite differences prove a backward pass to be the mirror of its forward pass; that the forward pass, the update, the
schedule and the writing are right, only another implementation can say.
"""

import json

from tinygpt.core.engine.contract import run_now
from tinygpt.core.optimizers.schedule import average_rate, learning_rate
from tinygpt.core.presets import preset
from tinygpt.engines.spec_player import plain_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tinygpt.core.config import RunConfig

    Row = tuple[str, list[float]]

WITHIN = 1e-9  # of a number's size: what is computed in another order differs by less, and a fault by more
TEXT = b"Whatever goes in must come out: 0123456789, and then some more of it again. " * 20
STEPS = 4
SIZES = {"layers": 2, "d_model": 8, "heads": 2, "ctx": 8, "batch": 2, "dropout": 0.0, "ngrams": "", "steps": 40}
KINDS = (
    ("classic", {"lr": 1e-2, "warmup": 2, "schedule": "cosine", "grad_accum": 2}),
    ("modern", {"lr": 1e-2, "warmup": 2, "weight_decay": 0.5}),
)


def config_of(recipe: str, changes: "dict[str, Any]") -> "RunConfig":
    return preset("tiny", recipe).replace(**dict(SIZES, **changes))


def rates(config: "RunConfig") -> "Iterator[Row]":
    train = config.train
    for step in (1, 2, 3, 5, 10, 20, 39, 40):
        yield f"the learning rate of step {step}", [learning_rate(train, step)]
        if train.average:
            yield f"the average's rate of step {step}", [average_rate(train, step)]


def trained(config: "RunConfig") -> "Iterator[Row]":
    engine = plain_engine(config)
    run_now(engine.load_corpus(TEXT, b""))
    view = engine.player.view
    moves = engine.memory.lowered.memory.layout.moves
    for step in range(1, STEPS + 1):
        run_now(engine.train(1))
        yield f"the loss of step {step}", [float(view("loss")[0])]
        for move in moves if step == 1 else []:
            gradient = view("grads")[move.start : move.start + move.size]
            yield f"the gradient of {move.name}", signs(gradient)
    for move in moves:
        yield f"{move.name} after {STEPS} steps", signs(view("weights")[move.start : move.start + move.size])
    yield from written(engine)


def signs(vector: "Any") -> "list[float]":
    """A few numbers that tell vectors apart."""
    return [float((vector * vector).sum()), float(vector.sum()), float(vector[0]), float(vector[-1])]


def written(engine: "Any") -> "Iterator[Row]":
    """Byte by byte, which goes another way than training."""
    run_now(engine.prefill(b"What"))
    for place, byte in enumerate(b"ever"):
        run_now(engine.decode(byte))
        logits = engine.player.view("next_logits").reshape(-1)
        yield f"what it says after {5 + place} bytes, read one by one", signs(logits) + [float(logits[ord("e")])]


class Evidence:
    """All of it, a row at a time."""

    def __init__(self) -> None:
        self.rows = self.gathered()

    def gathered(self) -> "Iterator[Row]":
        for recipe, changes in KINDS:
            config = config_of(recipe, changes)
            for what, values in rates(config):
                yield f"{what} ({recipe})", values
            for what, values in trained(config):
                yield f"{what} ({recipe})", values

    def step(self) -> str:
        for what, values in self.rows:
            return json.dumps([what, [repr(value) for value in values]])
        return "null"


class Judge:
    """Evidence beside the original's, row by row, until one is another."""

    def __init__(self, original: str) -> None:
        """`original` is a list of what `Evidence.step` said."""
        self.wanted = json.loads(original)
        self.rows = Evidence().rows
        self.done = 0

    def step(self) -> str:
        if self.done == len(self.wanted):
            return "null"
        what, wanted = self.wanted[self.done]
        self.done += 1
        found = None
        for said, values in self.rows:
            found = values if said == what else None
            break
        if found is None:
            return json.dumps({"what": what, "right": False, "value": "missing", "wanted": wanted[0]})
        for value, other in zip(found, wanted):  # noqa: B905 (MicroPython's zip takes no strict)
            if not abs(value - float(other)) <= WITHIN * (1 + abs(float(other))):
                return json.dumps({"what": what, "right": False, "value": repr(value), "wanted": other})
        return json.dumps({"what": what, "right": True, "value": "", "wanted": ""})
