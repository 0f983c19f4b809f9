"""Looking into the model in hand: on WebAssembly, in an engine of its own, planned for the text, whatever trains it.

Weights and tensors stay in JavaScript, which has the arithmetic of pictures, too: many small numbers are slow here.
What crosses is where they are.
"""

import gc
import json

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.corpus import train_bytes
from tinygpt.core.engine.memory import PlannedMemory, States
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.inside import attention_of, flow_of, kept_weights, lenses_of, looked_config
from tinygpt.core.look.watch import tensors_of
from tinygpt.core.models.memory import table_floats, weight_count
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.parts import part_names, scaled_parts, stretches_of
from tinygpt.core.models.programs import LOOKING
from tinygpt.core.tab.engine import Held, TabMachine, check_depth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WINDOW = 256  # bytes that are looked into at once, at most
LONGEST = 2048  # bytes of a text


def config_of(stated: "dict[str, Any]") -> RunConfig:
    config = RunConfig(ModelConfig(**stated["model"]), TrainConfig(**stated["train"]))
    check_depth(config.model)
    return config


def facts(stated: str) -> str:
    """Of a model's config: what can be chosen, tensors with the program that has them, and how long a text may be."""
    config = config_of(json.loads(stated))
    tensors: list[list[str]] = []
    for mode in LOOKING:
        known = [name for name, _ in tensors]
        made = tensors_of(looked_config(config, 2), [mode])
        tensors += [[tensor.name, mode] for tensor in made if tensor.name not in known]
    gc.collect()
    return json.dumps(
        {
            "window": min(WINDOW, config.model.ctx),
            "longest": LONGEST,
            "parts": part_names(config.model),
            "tensors": tensors,
            "attention": attention_of(config.model),
            "lenses": lenses_of(config.model),
            "flow": [list(stop) for stop in flow_of(config.model)],
        }
    )


def moves(stated: str, length: int, scales: str) -> str:
    """What makes the weights of a model that reads `length` bytes from those of the current one: parts are scaled, then
    stretches are kept."""
    model = config_of(json.loads(stated)).model
    parts = scaled_parts(model, [], [f"{name}={factor}" for name, factor in json.loads(scales)])
    scaled = []
    for name, factor in parts:
        scaled += [list(stretch) + [factor] for stretch in stretches_of(model, name)]
    count, tables = parameter_count(model), table_floats(model)
    kept = kept_weights(model, length) + ([(count, count + tables)] if tables else [])
    return json.dumps({"scaled": scaled, "kept": kept})


def learnt(corpus: int, val_fraction: float) -> int:
    """Bytes of a corpus, from the front, that a model has learnt from."""
    return train_bytes(corpus, val_fraction)


class WeightsAlone(States):
    """Your model has been checked already."""

    async def load(self, memory: PlannedMemory, state: "Any") -> None:
        await memory.player.write(memory.state_places(), state)


class Inside:
    """One program of LOOKING for a text of one length, some of whose tensors can be read when it has run."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.config = looked_config(config_of(asked["config"]), asked["length"])
        self.mode = asked["mode"]
        self.tensors = asked["tensors"]
        self.engine: Any = None  # once it has weights

    async def open(self, worker: "Any", weights: "Any") -> str:
        """Take memory; the places of the losses and of the tensors."""
        machine = TabMachine(None, keeps_slots=False)
        machine.worker = worker
        self.engine = ProgramEngine(self.config, machine, WeightsAlone(), self.held(weights))
        self.engine.memory.watched = tuple(self.tensors)
        await self.engine.require([self.mode])
        gc.collect()
        found = []
        for name in self.tensors:
            tensor, places, _ = self.engine.memory.readable(name)
            found.append([name, list(tensor.shape), places])
        losses = self.engine.memory.places("losses", self.config.model.ctx)
        return json.dumps({"losses": losses, "tensors": found})

    async def run(self, window: str, weights: "Any") -> None:
        """On the bytes of a window, one more than the length, with these weights, or none: with those it has."""
        given = bytes(json.loads(window))
        if len(given) != self.config.model.ctx + 1:
            raise TinyGPTError(f"a window must have {self.config.model.ctx + 1} bytes, not {len(given)}")
        if weights is not None:
            await self.engine.import_state(self.held(weights))
        await self.engine.write_windows([given])
        await self.engine.player.run(self.mode, 1)

    def held(self, weights: "Any") -> Held:
        return Held(weights, 4 * weight_count(self.config.model))
