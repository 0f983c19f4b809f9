"""A model's parts that add to the residual stream, and the weights through which they do.

`blocks.1.head.3` is a head, `blocks.1.attn` all heads of a block, `blocks.1.mlp` its MLP and `blocks.1` both. Each adds
a linear map's output to the stream, so scaling that map's weights scales what the part adds, exactly, on every engine:
a head's columns of o_proj (whose bias is no head's), or o_proj, or fc_out, with their biases.
"""

from collections import namedtuple

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.core.names import chosen

# `rows` stretches of `width` floats in the flat vector of all parameters, the first at `offset`, `pitch` apart.
Stretch = namedtuple("Stretch", ("offset", "rows", "width", "pitch"))


def part_names(model: ModelConfig) -> "list[str]":
    names = []
    for i in range(0 if model.kind == "bigram" else model.layers):
        block = f"blocks.{i}"
        names += [block, block + ".attn"] + [f"{block}.head.{h}" for h in range(model.heads)] + [block + ".mlp"]
    return names


def stretches_of(model: ModelConfig, name: str) -> "list[Stretch]":
    """The weights to scale with a part."""
    block, _, kind = name.partition(".")[2].partition(".")
    found = {row.name: row for row in parameters(model)}
    stretches = []
    if kind.startswith("head."):
        weight, D = found[f"blocks.{block}.attn.o_proj.weight"], model.head_size
        return [Stretch(weight.offset + int(kind[5:]) * D, model.d_model, D, model.d_model)]
    for branch, projection in (("attn", "attn.o_proj"), ("mlp", "mlp.fc_out")):
        if kind in ("", branch):
            for leaf in (".weight", ".bias"):
                row = found.get(f"blocks.{block}.{projection}{leaf}")
                if row is not None:
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
            raise TinyGPTError("a bigram model has no parts to scale: it is one table")
        result += [(name, factor) for name in chosen([pattern], names, "part")]
    return result
