"""The model's parameters: names, shapes, order, start values. Every engine and file follows this list."""

import math
from collections import namedtuple

from tinygpt.core.config import VOCAB, ModelConfig

# offset: where the tensor starts in the flat vector of all parameters (in floats).
# std: standard deviation of the normal start values; 0 where they are the constant `fill`.
# decay: whether AdamW's weight decay applies (tensors of two or more dims).
Parameter = namedtuple("Parameter", ("name", "shape", "offset", "size", "std", "fill", "decay"))

INIT_STD = 0.02


def parameters(model: ModelConfig) -> list[Parameter]:
    """All parameters in the order of the model file. A linear weight is [out, in], as in PyTorch."""
    C, H = model.d_model, model.d_mlp
    # Residual projections start smaller, so that the stream's variance does not grow with depth.
    residual_std = INIT_STD / math.sqrt(2 * model.layers)
    rows: list[tuple[str, tuple[int, ...], float, float]] = [
        ("token_embedding.weight", (VOCAB, C), INIT_STD, 0.0),
        ("position_embedding.weight", (model.ctx, C), INIT_STD, 0.0),
        ("ln_final.weight", (C,), 0.0, 1.0),
        ("ln_final.bias", (C,), 0.0, 0.0),
    ]
    for layer in range(model.layers):
        block = f"blocks.{layer}."
        rows.append((block + "ln1.weight", (C,), 0.0, 1.0))
        rows.append((block + "ln1.bias", (C,), 0.0, 0.0))
        for projection in ("q_proj", "k_proj", "v_proj", "o_proj"):
            std = residual_std if projection == "o_proj" else INIT_STD
            rows.append((f"{block}attn.{projection}.weight", (C, C), std, 0.0))
            rows.append((f"{block}attn.{projection}.bias", (C,), 0.0, 0.0))
        rows.append((block + "ln2.weight", (C,), 0.0, 1.0))
        rows.append((block + "ln2.bias", (C,), 0.0, 0.0))
        rows.append((block + "mlp.fc_in.weight", (H, C), INIT_STD, 0.0))
        rows.append((block + "mlp.fc_in.bias", (H,), 0.0, 0.0))
        rows.append((block + "mlp.fc_out.weight", (C, H), residual_std, 0.0))
        rows.append((block + "mlp.fc_out.bias", (C,), 0.0, 0.0))

    result = []
    offset = 0
    for name, shape, std, fill in rows:
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        result.append(Parameter(name, shape, offset, size, std, fill, len(shape) >= 2))
        offset += size
    return result


def parameter_count(model: ModelConfig) -> int:
    last = parameters(model)[-1]
    return int(last.offset + last.size)


def is_linear_weight(name: str) -> bool:
    """Whether a tensor is a linear map's matrix (an embedding is a table, not a map)."""
    return name.endswith("_proj.weight") or name.endswith("fc_in.weight") or name.endswith("fc_out.weight")
