"""The model's parameters: names, shapes, order, start values. Every engine and file follows this list."""

import math
from collections import namedtuple

from tinygpt.core.config import PROJECTIONS, VOCAB, ModelConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[str, tuple[int, ...], float, float]  # name, shape, std, fill

# offset: where the tensor starts in the flat vector of all parameters (in floats).
# std: standard deviation of the normal start values; 0 where they are the constant `fill`.
# decay: whether weight decay applies (tensors of two or more dims).
Parameter = namedtuple("Parameter", ("name", "shape", "offset", "size", "std", "fill", "decay"))

INIT_STD = 0.02


def outer_rows(model: ModelConfig) -> "list[Row]":
    C = model.d_model
    if model.kind == "bigram":
        return [("token_embedding.weight", (VOCAB, VOCAB), INIT_STD, 0.0)]
    rows: list[Row] = [("token_embedding.weight", (VOCAB, C), INIT_STD, 0.0)]
    if model.positions == "learned":
        rows.append(("position_embedding.weight", (model.ctx, C), INIT_STD, 0.0))
    if model.norm_place == "pre":
        rows += norm_rows(model, "ln_final")
    if model.tied_head == "off":
        rows.append(("lm_head.weight", (VOCAB, C), INIT_STD, 0.0))
    return rows


def block_rows(model: ModelConfig) -> "list[Row]":
    """Of each block, without its name."""
    if model.kind == "bigram":
        return []
    C, F = model.d_model, model.d_mlp
    # Residual projections start smaller, so that the stream's variance does not grow with depth.
    residual_std = INIT_STD / math.sqrt(2 * model.layers)
    rows = norm_rows(model, "ln1")
    for projection, width in (("q_proj", C), ("k_proj", model.kv_width), ("v_proj", model.kv_width)):
        rows += linear_rows(model, "attn." + projection, width, C, INIT_STD)
    rows += linear_rows(model, "attn.o_proj", C, C, residual_std)
    rows += norm_rows(model, "ln2")
    if model.activation == "swiglu":
        rows += linear_rows(model, "mlp.fc_gate", F, C, INIT_STD)
    rows += linear_rows(model, "mlp.fc_in", F, C, INIT_STD)
    rows += linear_rows(model, "mlp.fc_out", C, F, residual_std)
    return rows


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


def size_of(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def parameters(model: ModelConfig) -> list[Parameter]:
    """All parameters in the order of the model file."""
    rows = outer_rows(model)
    block = block_rows(model)
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
    return len(outer_rows(model)) + model.layers * len(block_rows(model))


def parameter_count(model: ModelConfig) -> int:
    """How many floats, without a list of them: a stranger's config may name a giant."""
    outer = sum([size_of(row[1]) for row in outer_rows(model)])
    return outer + model.layers * sum([size_of(row[1]) for row in block_rows(model)])


def is_linear_weight(name: str) -> bool:
    """Whether a tensor is a linear map's matrix (an embedding is a table, not a map)."""
    parts = name.split(".")
    return parts[-1] == "weight" and parts[-2] in PROJECTIONS + ("lm_head",)


def is_hidden_matrix(name: str) -> bool:
    """Whether a tensor is a linear map's matrix inside a block: what Muon is for."""
    return name.startswith("blocks.") and is_linear_weight(name)
