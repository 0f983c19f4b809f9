"""What a run trains: all of its model's parameters, or adapters (LoRA) beside projections that stay as they are.

    x W^T + b + (x A^T) B^T alpha / rank        A [rank, in], B [out, rank]

A starts normal and B at zero, so before its first step an adapted model is its base, to the bit.
"""

import math
from collections import namedtuple

from tinygpt.core.config import PROJECTIONS, LoraConfig, ModelConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import Parameter, parameter_count, parameters
from tinygpt.core.names import is_linear_weight
from tinygpt.core.rng import INIT, LORA_INIT

WEIGHT = ".weight"
LORA_A, LORA_B = ".lora_A", ".lora_B"

# W += B A scale: the matrix that is adapted, and its A and B among the adapters.
Merge = namedtuple("Merge", ("base", "a", "b"))


def trained_parameters(config: RunConfig) -> list[Parameter]:
    """In the order of a state's vectors."""
    return parameters(config.model) if config.lora is None else adapter_parameters(config.model, config.lora)


def trained_count(config: RunConfig) -> int:
    if config.lora is None:
        return parameter_count(config.model)
    return sum([row.size for row in adapter_parameters(config.model, config.lora)])


def start_purpose(config: RunConfig) -> int:
    """What start values are drawn for: no adapter begins with a model's numbers."""
    return INIT if config.lora is None else LORA_INIT


def adapter_parameters(model: ModelConfig, lora: LoraConfig) -> list[Parameter]:
    """In the order of the parameters that they stand on, A before B."""
    require_targets(model, lora)
    rows = []
    offset = 0
    for base in parameters(model):
        if not is_adapted(base.name, lora):
            continue
        outputs, inputs = base.shape
        # Normalised inputs have variance 1; with this deviation so has x A^T.
        for ending, shape, std in (
            (LORA_A, (lora.rank, inputs), 1 / math.sqrt(inputs)),
            (LORA_B, (outputs, lora.rank), 0.0),
        ):
            size = shape[0] * shape[1]
            rows.append(Parameter(base.name[: -len(WEIGHT)] + ending, shape, offset, size, std, 0.0, True))
            offset += size
    return rows


def merges(model: ModelConfig, lora: LoraConfig) -> list[Merge]:
    """What makes a plain model of one and its adapters."""
    places = {row.name: row for row in parameters(model)}
    rows = adapter_parameters(model, lora)
    pairs = [(rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]
    return [Merge(places[a.name[: -len(LORA_A)] + WEIGHT], a, b) for a, b in pairs]


def is_adapted(name: str, lora: LoraConfig) -> bool:
    return is_linear_weight(name) and name.split(".")[-2] in lora.target_list


def projections_of(model: ModelConfig) -> list[str]:
    """Those that can be adapted."""
    there = [row.name.split(".")[-2] for row in parameters(model) if is_linear_weight(row.name)]
    return [name for name in PROJECTIONS if name in there]


def require_targets(model: ModelConfig, lora: LoraConfig) -> None:
    there = projections_of(model)
    missing = [name for name in lora.target_list if name not in there]
    if missing:
        raise TinyGPTError(
            f"this model has no {', '.join(missing)} to adapt; it has {', '.join(there) or 'nothing that can be'}"
        )
