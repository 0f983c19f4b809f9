"""Looking inside: what a model computes on its way from a text to the next byte, as plain data.

A model that is looked into has a context as long as the text. Rows beyond it would change nothing, for attention looks
back only; and so gradients are of this text alone.
"""

import math
from collections import namedtuple

from tinygpt.core.config import VOCAB, ModelConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.kinds import model_of
from tinygpt.core.look.watch import floats_in
from tinygpt.core.models.parameters import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Rows = list[tuple[float, ...]]

# A stop of the residual stream: the part that adds to it (none at the first: that is a byte's embedding), the stream
# after that, and what the part had made before its last map.
Stop = namedtuple("Stop", ("part", "stream", "made"))

DIGITS = 5
TOP = 6  # bytes that are named where 256 probabilities would be too many


def looked_config(config: RunConfig, length: int) -> RunConfig:
    """Of the model that reads so many bytes, once."""
    plain = {"grad_accum": 1, "dropout": 0.0, "average": 0.0, "label_smoothing": 0.0}
    return config.replace(ctx=length, batch=1, **plain)


def kept_weights(model: ModelConfig, length: int) -> "list[tuple[int, int]]":
    """Where the weights of that model lie in the flat vector of all: begin and end of stretches, in order."""
    begin, stretches = 0, []
    for row in parameters(model):
        if row.name == "position_embedding.weight":
            stretches.append((begin, row.offset + length * model.d_model))
            begin = row.offset + row.size
    last = parameters(model)[-1]
    return stretches + [(begin, last.offset + last.size)]


def stages_of(model: ModelConfig) -> "list[tuple[str, str, str]]":
    """The residual stream on its way: what has just added to it, the tensor it is, the tensor of its gradient."""
    stages: list[tuple[str, str, str]] = model_of(model.kind).stages(model)
    return stages


def flow_of(model: ModelConfig) -> "list[Stop]":
    """All stops of the residual stream on its way; a model without one has none."""
    stages = [tensor for _, tensor, _ in stages_of(model)]
    if not stages:
        return []
    stops = [Stop("", "x_bytes" if model.ngram_tables else stages[0], "")]
    if model.ngram_tables:
        stops.append(Stop("ngrams", stages[0], "ngrams"))
    mixer = "attn" if attention_of(model) else "mix"
    for i in range(model.layers):
        stops.append(Stop(f"blocks.{i}.{mixer}", stages[1 + 2 * i], f"blocks.{i}.y"))
        stops.append(Stop(f"blocks.{i}.mlp", stages[2 + 2 * i], f"blocks.{i}.h"))
    return stops


def lenses_of(model: ModelConfig) -> "list[str]":
    """The logits that the input of each block would give, then the model's own."""
    lenses: list[str] = model_of(model.kind).lenses(model)
    return lenses


def attention_of(model: ModelConfig) -> "list[str]":
    """The softmax of each block, all of its heads; a model without attention has none."""
    attention: list[str] = model_of(model.kind).attention(model)
    return attention


def direction_of(model: ModelConfig, weights: "Any", byte: int) -> "list[float]":
    """The unit vector of the residual stream along which a byte's logit grows: its row of the head, times the gain of
    the last norm; where that norm takes out the mean, without its own."""
    found = {row.name: row for row in parameters(model)}
    C = model.d_model
    head = found["token_embedding.weight" if model.tied_head == "on" else "lm_head.weight"]
    row = [float(value) for value in weights[head.offset + byte * C : head.offset + (byte + 1) * C]]
    gain = found.get("ln_final.weight")
    if gain is not None:
        row = [row[c] * float(weights[gain.offset + c]) for c in range(C)]
        if model.norm == "layernorm":
            mean = sum(row) / C
            row = [value - mean for value in row]
    length = norm(row)
    return [value / length for value in row] if length else row


async def look_forward(engine: "Any", text: bytes, direction: "Sequence[float]" = ()) -> "dict[str, Any]":
    """What the model, whose context is the text's length, makes of each byte: attention, the lens, the next byte's
    probabilities, the residual stream's norms, and where it lies along a direction."""
    model = engine.config.model
    stages = [tensor for _, tensor, _ in stages_of(model)]
    lenses, attention = lenses_of(model), attention_of(model)
    seen = await watched_run(engine, "inspect", text + b"\0", stages + lenses + attention)
    T = len(text)
    stream = [rows_of(seen[name], T) for name in stages]
    said = [[softmax(row) for row in rows_of(seen[name], T)] for name in lenses]
    return {
        "bytes": list(text),
        "layers": len(attention),
        "heads": model.heads if attention else 0,
        "stages": [label for label, _, _ in stages_of(model)],
        "attention": [triangles(rows_of(seen[name], model.heads * T), T) for name in attention],
        "lens": [[opinion(row, text, i) for i, row in enumerate(rows)] for rows in said],
        "next": [[rounded(p) for p in row] for row in said[-1]],
        "norms": [[rounded(norm(row)) for row in rows] for rows in stream],
        "along": [[rounded(dot(row, direction)) for row in rows] for rows in stream] if direction else [],
        "cosine": [[cosine(row, direction) for row in rows] for rows in stream] if direction else [],
    }


async def look_backward(engine: "Any", text: bytes) -> "dict[str, Any]":
    """The gradient of the mean loss of a text, whose length is the context's and one byte more: its norm at every byte
    and stage of the residual stream, and of every parameter."""
    model = engine.config.model
    stages = [tensor for _, _, tensor in stages_of(model)]
    seen = await watched_run(engine, "gradients", text, stages)
    layout, gradients = engine.lowered.memory.layout, {}
    for place in layout.places:
        values = floats_in((await engine.memory.read_tensor("d" + place.name))[1])
        for move in layout.moves:
            first = move.start - place.start
            if 0 <= first < place.size:
                gradients[move.name] = rounded(norm(values[first : first + move.size]))
    return {
        "gradients": [[rounded(norm(row)) for row in rows_of(seen[name], len(text) - 1)] for name in stages],
        "weight_gradients": gradients,
    }


async def watched_run(engine: "Any", mode: str, window: bytes, names: "list[str]") -> "dict[str, tuple[float, ...]]":
    """Run a program on a window, and read some tensors of it."""
    if len(window) != engine.config.model.ctx + 1:
        raise TinyGPTError("a model that is looked into has a context of the text's length; this is a bug")
    await engine.memory.watch(tuple(names))
    await engine.require([mode])
    await engine.write_windows([window])
    await engine.player.run(mode, 1)
    seen = {}
    for name in names:  # MicroPython awaits nothing in a comprehension
        seen[name] = floats_in((await engine.memory.read_tensor(name))[1])
    return seen


# --- numbers -------------------------------------------------------------------------------------------------


def rows_of(values: "tuple[float, ...]", count: int) -> "Rows":
    width = len(values) // count
    return [values[i * width : (i + 1) * width] for i in range(count)]


def triangles(rows: "Rows", T: int) -> "list[list[list[float]]]":
    """Of each head, row i as far as it looks: at bytes 0 to i."""
    return [[[rounded(p) for p in rows[first + i][: i + 1]] for i in range(T)] for first in range(0, len(rows), T)]


def opinion(row: "list[float]", text: bytes, place: int) -> "dict[str, Any]":
    """The likeliest bytes, how undecided it is in bits, and how likely it finds the byte that comes."""
    order = sorted(range(VOCAB), key=lambda byte: (-row[byte], byte))[:TOP]
    follows = rounded(row[text[place + 1]]) if place + 1 < len(text) else None
    bits = -sum([p * math.log(p) for p in row if p > 0]) / math.log(2)
    return {"top": [[byte, rounded(row[byte])] for byte in order], "bits": rounded(bits), "follows": follows}


def softmax(logits: "Sequence[float]") -> "list[float]":
    top = max(logits)
    powers = [math.exp(logit - top) for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def norm(values: "Sequence[float]") -> float:
    return math.sqrt(sum([value * value for value in values]))


def dot(a: "Sequence[float]", b: "Sequence[float]") -> float:
    return sum([a[i] * b[i] for i in range(len(a))])


def cosine(row: "Sequence[float]", direction: "Sequence[float]") -> float:
    length = norm(row)
    return rounded(dot(row, direction) / length) if length else 0.0


def rounded(value: float) -> float:
    """To DIGITS significant ones: what a picture shows, and a file can hold."""
    if value == 0 or value - value != 0:
        return 0.0
    places = DIGITS - 1 - math.floor(math.log(abs(value)) / math.log(10))
    return round(value, places)
