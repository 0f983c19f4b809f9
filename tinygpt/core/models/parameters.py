"""The model's parameters: names, shapes, order, start values. Every engine and file follows this list."""

from collections import namedtuple

from tinygpt.core.config import ModelConfig
from tinygpt.core.kinds import model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Row = tuple[str, tuple[int, ...], float, float]  # name, shape, std, fill

# offset: where the tensor starts in the flat vector of all parameters (in floats).
# std: standard deviation of the normal start values; 0 where they are the constant `fill`.
# decay: whether weight decay applies (tensors of two or more dims).
Parameter = namedtuple("Parameter", ("name", "shape", "offset", "size", "std", "fill", "decay"))

INIT_STD = 0.02


def norm_rows(model: ModelConfig, name: str) -> "list[Row]":
    rows: list[Row] = [(name + ".weight", (model.d_model,), 0.0, 1.0)]
    if model.norm == "layernorm" and model.biases == "on":
        rows.append((name + ".bias", (model.d_model,), 0.0, 0.0))
    return rows


def linear_rows(model: ModelConfig, name: str, outputs: int, inputs: int, std: float) -> "list[Row]":
    """A linear weight is [out, in], as in PyTorch."""
    rows: list[Row] = [(name + ".weight", (outputs, inputs), std, 0.0)]
    if model.biases == "on":
        rows.append((name + ".bias", (outputs,), 0.0, 0.0))
    return rows


NGRAM_MAP = "ngram_proj"
NGRAM_STD = INIT_STD  # of its start values


def ngram_rows(model: ModelConfig) -> "list[Row]":
    """The map from the rows of n-gram tables to the stream. The tables themselves are not among the parameters: see
    ngrams.py."""
    width = len(model.ngram_tables) * model.ngram_width
    return [(NGRAM_MAP + ".weight", (model.d_model, width), NGRAM_STD, 0.0)] if width else []


def size_of(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def parameters(model: ModelConfig) -> list[Parameter]:
    """All parameters in the order of the model file."""
    kind = model_of(model.kind)
    rows = list(kind.outer_rows(model))
    block = kind.block_rows(model)
    for layer in range(model.layers):
        rows += [(f"blocks.{layer}.{name}", shape, std, fill) for name, shape, std, fill in block]

    result = []
    offset = 0
    for name, shape, std, fill in rows:
        size = size_of(shape)
        result.append(Parameter(name, shape, offset, size, std, fill, len(shape) >= 2))
        offset += size
    return result


def tensor_count(model: ModelConfig) -> int:
    return total(model, lambda shape: 1)


def parameter_count(model: ModelConfig) -> int:
    """How many floats, without a list of them: a stranger's config may name a giant."""
    return total(model, size_of)


def total(model: ModelConfig, measure: "Callable[[tuple[int, ...]], int]") -> int:
    """The sum of a measure over the shapes of all parameters."""
    kind = model_of(model.kind)
    outer = sum([measure(row[1]) for row in kind.outer_rows(model)])
    return outer + model.layers * sum([measure(row[1]) for row in kind.block_rows(model)])
