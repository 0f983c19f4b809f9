"""What a GPT consists of: its parameters, its KV caches, parts that can be switched off, and its residual stream."""

import math

from tinygpt.core.config import VOCAB, ModelConfig
from tinygpt.core.models.model import WHOLE, Part
from tinygpt.core.models.parameters import INIT_STD, NGRAM_MAP, linear_rows, ngram_rows, norm_rows
from tinygpt.core.ops.ngrams import MOST_BYTES
from tinygpt.core.ops.op import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.models.parameters import Row


def outer_rows(model: ModelConfig) -> "list[Row]":
    C = model.d_model
    rows: list[Row] = [("token_embedding.weight", (VOCAB, C), INIT_STD, 0.0)]
    if model.positions == "learned":
        rows.append(("position_embedding.weight", (model.ctx, C), INIT_STD, 0.0))
    return rows + ngram_rows(model) + head_rows(model)


def head_rows(model: ModelConfig) -> "list[Row]":
    """What turns the last block's output into logits."""
    rows = norm_rows(model, "ln_final") if model.norm_place == "pre" else []
    if model.tied_head == "off":
        rows.append(("lm_head.weight", (VOCAB, model.d_model), INIT_STD, 0.0))
    return rows


def block_rows(model: ModelConfig) -> "list[Row]":
    C = model.d_model
    rows = norm_rows(model, "ln1")
    for projection, width in (("q_proj", C), ("k_proj", model.kv_width), ("v_proj", model.kv_width)):
        rows += linear_rows(model, "attn." + projection, width, C, INIT_STD)
    rows += linear_rows(model, "attn.o_proj", C, C, residual_std(model))
    return rows + mlp_rows(model)


def mlp_rows(model: ModelConfig) -> "list[Row]":
    C, F = model.d_model, model.d_mlp
    rows = norm_rows(model, "ln2")
    if model.activation == "swiglu":
        rows += linear_rows(model, "mlp.fc_gate", F, C, INIT_STD)
    rows += linear_rows(model, "mlp.fc_in", F, C, INIT_STD)
    return rows + linear_rows(model, "mlp.fc_out", C, F, residual_std(model))


def residual_std(model: ModelConfig) -> float:
    """Residual projections start smaller, so that the stream's variance does not grow with depth."""
    return INIT_STD / math.sqrt(2 * model.layers)


def kv_caches(model: ModelConfig, texts: int) -> list[Tensor]:
    """The keys, then the values, of each block: ctx rows for each text."""
    shape = (texts * model.ctx, model.d_model)
    caches = [Tensor(f"{name}.{i}", shape, "state") for name in ("cache_k", "cache_v") for i in range(model.layers)]
    return caches + recent_bytes(model, texts)


def recent_bytes(model: ModelConfig, texts: int) -> list[Tensor]:
    """The last bytes of each text, where n-gram tables ask for them."""
    return [Tensor("recent", (texts, MOST_BYTES), "state", "i32")] if model.ngram_tables else []


def parts(model: ModelConfig) -> list[Part]:
    """`blocks.1.head.3` is a head, `blocks.1.attn` all heads of a block, `blocks.1.mlp` its MLP, `blocks.1` both."""
    found = ngram_parts(model)
    for i in range(model.layers):
        block, D = f"blocks.{i}", model.head_size
        o_proj, fc_out = block + ".attn.o_proj", block + ".mlp.fc_out"
        found += [Part(block, [(o_proj, WHOLE), (fc_out, WHOLE)]), Part(block + ".attn", [(o_proj, WHOLE)])]
        found += [Part(f"{block}.head.{h}", [(o_proj, (h * D, D))]) for h in range(model.heads)]
        found.append(Part(block + ".mlp", [(fc_out, WHOLE)]))
    return found


def ngram_parts(model: ModelConfig) -> list[Part]:
    return [Part("ngrams", [(NGRAM_MAP, WHOLE)])] if model.ngram_tables else []


def residual_stages(model: ModelConfig, first: str = "attention") -> "list[tuple[str, str, str]]":
    """`first` names the first branch of a block."""
    post = model.norm_place == "post"
    mid, out = ("b", "c") if post else ("x_mid", "x_out")
    into, of_mid, last = ("dx_post", "dx_out", "df") if post else ("dx", "dx_mid", "dx")
    stages = [("embedding", "x", f"blocks.0.{into}")]
    for i in range(model.layers):
        after = f"blocks.{i + 1}.{into}" if i + 1 < model.layers else last
        stages.append((f"{first} {i}", f"blocks.{i}.{mid}", f"blocks.{i}.{of_mid}"))
        stages.append((f"MLP {i}", f"blocks.{i}.{out}", after))
    return stages


def lenses(model: ModelConfig) -> list[str]:
    return [f"blocks.{i}.lens" for i in range(model.layers)] + ["logits"]


def attention_maps(model: ModelConfig) -> list[str]:
    return [f"blocks.{i}.p" for i in range(model.layers)]
