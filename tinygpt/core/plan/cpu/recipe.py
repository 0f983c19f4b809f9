"""All that a player outside of Python needs to know of a run, as plain data: whole numbers and texts only.

The two interpreters print floats differently, so a double travels as its two halves. web/src/engine/contract.ts has
the same fields.
"""

import struct

from tinygpt.core.config import RunConfig
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.plan.cpu.lowering import Lowered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def double_words(value: float) -> list[int]:
    """The high and the low 32 bits."""
    high, low = struct.unpack(">II", struct.pack(">d", value))
    return [high, low]


def recipe(config: RunConfig) -> "dict[str, Any]":
    """Places and sizes are in floats."""
    lowered = Lowered(config)
    memory, plan = lowered.memory, lowered.plan
    anywhere = sorted(lowered.programs)[0]  # persistent tensors lie at the same place in every program
    starts = {move.name: move.start for move in memory.layout.moves}
    draws, fills = [], []
    weights = plan.start(anywhere, memory.weights)
    every = parameters(config.model)
    for index in range(len(every)):
        row = every[index]
        place = [weights + starts[row.name], row.size]
        if row.std:
            draws.append(place + [index] + double_words(row.std))
        elif row.fill:
            fills.append(place + double_words(row.fill))
    return {
        "batch": config.train.batch,
        "ctx": config.model.ctx,
        "grad_accum": config.train.grad_accum,
        "seed": config.train.seed,
        "arena": plan.size,
        "parameters": parameter_count(config.model),
        "places": {tensor.name: plan.start(anywhere, tensor) for tensor in memory.tensors()},
        "moves": [[move.offset, move.start, move.size] for move in memory.layout.moves],  # file, flat vector, floats
        "draws": draws,  # place, floats, index of the parameter, std
        "fills": fills,  # place, floats, value
        "words": lowered.words,
    }
