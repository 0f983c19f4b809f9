"""A model's parts that add to the residual stream, and the weights through which they do.

Each part adds a linear map's output to the stream, so scaling that map's weights scales what the part adds, exactly, on
every engine: a head's columns of o_proj (whose bias belongs to no head), or all of a map with its bias.
"""

from collections import namedtuple

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.kinds import model_of
from tinygpt.core.models.model import WHOLE
from tinygpt.core.models.parameters import parameters
from tinygpt.core.names import chosen

# `rows` stretches of `width` floats in the flat vector of all parameters, the first at `offset`, `pitch` apart.
Stretch = namedtuple("Stretch", ("offset", "rows", "width", "pitch"))


def part_names(model: ModelConfig) -> "list[str]":
    return [part.name for part in model_of(model.kind).parts(model)]


def stretches_of(model: ModelConfig, name: str) -> "list[Stretch]":
    """The weights to scale with a part: some columns of a map, or all of it with its bias."""
    found = {row.name: row for row in parameters(model)}
    (part,) = [part for part in model_of(model.kind).parts(model) if part.name == name]
    stretches = []
    for which, columns in part.maps:
        weight, bias = found[which + ".weight"], found.get(which + ".bias")
        if columns != WHOLE:
            rows, pitch = weight.shape
            stretches.append(Stretch(weight.offset + columns[0], rows, columns[1], pitch))
            continue
        for row in [weight] + ([] if bias is None else [bias]):
            stretches.append(Stretch(row.offset, 1, row.size, row.size))
    return stretches


def scaled_parts(model: ModelConfig, ablate: "list[str]", scale: "list[str]") -> "list[tuple[str, float]]":
    """The parts that `ablate` names (patterns, as "blocks.*.mlp") with 0, those of `scale` ("blocks.0=0.5") with
    theirs."""
    names = part_names(model)
    wanted = [(pattern, 0.0) for pattern in ablate]
    for one in scale:
        pattern, _, stated = one.rpartition("=")
        try:
            wanted.append((pattern, float(stated)))
        except ValueError:
            raise TinyGPTError(f"a part is scaled as in blocks.1.head.3=0.5, not '{one}'") from None
    result = []
    for pattern, factor in wanted:
        if factor - factor != 0:
            raise TinyGPTError(f"a part cannot be scaled by {factor}")
        if not names:
            raise TinyGPTError(f"a {model.kind} model has no parts to scale")
        result += [(name, factor) for name in chosen([pattern], names, "part")]
    return result
