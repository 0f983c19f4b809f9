"""What a lab asks of Python in a room of its own: to plan a step, to check its gradients, to train with it.

The room's sources may be edited. Whatever takes long is a `step` at a time, at whose end MicroPython sweeps its heap.
"""

import json

from tinygpt.bench.gradients import WITHIN, gradients_checked
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.look.step import ops_data, slots_data
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.programs import step_modes
from tinygpt.core.ops.op import KERNELS
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import preset
from tinygpt.engines.spec_player import plain_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TEXT = (
    b"Whatever goes in must come out: 0123456789, and then some more of it again. " * 20
)  # as `tinygpt gradients` has
WINDOW = 1 << 20  # bytes of the text that a plan is for
# So small that plain Python takes a moment, and without what is random; of two texts, in which letters occur twice.
CHECKED = {
    "layers": 2, "d_model": 8, "heads": 2, "kv_heads": 0, "ctx": 4, "batch": 2, "grad_accum": 2, "dropout": 0.0,
    "ngram_rows": 256, "ngram_width": 4,
}  # fmt: skip
TRAINED = {
    "layers": 2, "d_model": 8, "heads": 2, "kv_heads": 0, "ctx": 8, "batch": 2, "grad_accum": 1, "dropout": 0.0,
    "ngrams": "",
}  # fmt: skip
# Matrices of 8 numbers across want longer steps than a preset's.
RATES = {"lr": 2e-2, "min_lr": 2e-3, "warmup": 5}


def config_of(asked: "dict[str, Any]") -> RunConfig:
    """A preset's run with some changes."""
    config = preset(asked["preset"], asked["recipe"], asked.get("bytes"))
    return config.replace(**asked.get("changes", {}))


def checked_config(config: RunConfig) -> RunConfig:
    """Of the same make; its n-gram tables, if it has some, are of pairs alone."""
    small = config.replace(**CHECKED)
    return small.replace(ngrams="2") if small.model.ngrams else small


def trained_config(config: RunConfig) -> RunConfig:
    """What the specification trains in a tab."""
    return config.replace(**dict(TRAINED, **RATES))


def declarations() -> str:
    """What kernels are called with. A compiled module has those of its own day."""
    rows = [[name, KERNELS[name].tensors, KERNELS[name].dims, KERNELS[name].scalars] for name in sorted(KERNELS)]
    return json.dumps(rows)


def plan(request: str) -> str:
    """The step of a run: its ops, its memory."""
    asked = json.loads(request)
    config = config_of(asked)
    modes = step_modes(config)
    lowered = Lowered(config, modes, asked.get("bytes") or WINDOW)
    mode = modes[0]
    return json.dumps(
        {
            "model": config.model.describe(),
            "parameters": parameter_count(config.model),
            "arena": lowered.plan.size,
            "persistent": lowered.plan.persistent_size,
            "ops": ops_data(lowered.programs[mode].ops, []),
            "slots": slots_data(lowered, mode),
            "declared": declarations(),
        }
    )


class Check:
    """Finite differences of a small model of the run's make, parameter by parameter."""

    def __init__(self, request: str) -> None:
        self.found = gradients_checked(checked_config(config_of(json.loads(request))), TEXT)

    def step(self) -> str:
        """The next one; null when there are no more."""
        for each in self.found:
            row = {"name": each.name, "length": each.length, "error": each.error, "right": each.right}
            return json.dumps(dict(row, within=WITHIN))
        return "null"


class SpecRun:
    """A tiny model that the specification trains, here and now."""

    def __init__(self, request: str, digits: str) -> None:
        """`digits` are the text's bytes as hexadecimal digits: JavaScript's are none of Python's."""
        asked = json.loads(request)
        self.config = trained_config(config_of(asked)).replace(steps=asked["steps"], seed=asked.get("seed", 0))
        self.engine = plain_engine(self.config)
        run_now(self.engine.load_corpus(bytes.fromhex(digits), b""))

    def describe(self) -> str:
        return json.dumps({"model": self.config.model.describe(), "parameters": parameter_count(self.config.model)})

    def step(self) -> str:
        """Its step and loss; null once all are done."""
        if self.engine.step >= self.config.train.steps:
            return "null"
        run_now(self.engine.train(1))
        row = run_now(self.engine.read_metrics())[-1]
        return json.dumps([row.step, row.loss])
