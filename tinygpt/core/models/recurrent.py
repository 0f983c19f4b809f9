"""A gated recurrent network (a minimal GRU): the blocks of a GPT with a scan in the place of attention.

A row takes in its own value and keeps a share of what the rows before it left, column by column; the gate decides the
share. So a text that is being written keeps one row per block, however long it is, instead of a KV cache. Norms, MLP,
head and activation are the GPT's; `heads`, `kv_heads`, `qk_norm` and `positions` mean nothing here. The optimizer Muon
steps its matrices as AdamW would, since its kernels know the matrices of a transformer's blocks only.
"""

from tinygpt.core.config import VOCAB, ModelConfig
from tinygpt.core.models import gpt
from tinygpt.core.models.gpt_anatomy import (
    head_rows,
    lenses,
    mlp_rows,
    ngram_parts,
    recent_bytes,
    residual_stages,
    residual_std,
)
from tinygpt.core.models.layers import ModelProgram, Normed
from tinygpt.core.models.model import WHOLE, Model, Part
from tinygpt.core.models.parameters import INIT_STD, linear_rows, ngram_rows, norm_rows
from tinygpt.core.ops.op import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tinygpt.core.models.parameters import Row

    Scan = Callable[[ModelProgram, int, Tensor, Tensor], Tensor]  # block, gate, value: returns y


class SavedBlock(gpt.SavedMlp):
    into_scan: Normed
    gate: Tensor  # [N, C] before its sigmoid
    value: Tensor  # [N, C]
    y: Tensor  # [N, C] the scan's output
    out_of_scan: Normed


# --- anatomy -------------------------------------------------------------------------------------------------


def outer_rows(model: ModelConfig) -> "list[Row]":
    rows: list[Row] = [("token_embedding.weight", (VOCAB, model.d_model), INIT_STD, 0.0)]
    return rows + ngram_rows(model) + head_rows(model)


def block_rows(model: ModelConfig) -> "list[Row]":
    C = model.d_model
    rows = norm_rows(model, "ln1")
    rows += linear_rows(model, "mix.gate_proj", C, C, INIT_STD)
    rows += linear_rows(model, "mix.value_proj", C, C, INIT_STD)
    return rows + linear_rows(model, "mix.o_proj", C, C, residual_std(model)) + mlp_rows(model)


def states(model: ModelConfig, texts: int) -> list[Tensor]:
    """What the rows so far have left in each block, a row for each text."""
    rows = [Tensor(f"scanned.{i}", (texts, model.d_model), "state") for i in range(model.layers)]
    return rows + recent_bytes(model, texts)


def parts(model: ModelConfig) -> list[Part]:
    found = ngram_parts(model)
    for i in range(model.layers):
        block = f"blocks.{i}"
        mix, mlp = (block + ".mix.o_proj", WHOLE), (block + ".mlp.fc_out", WHOLE)
        found += [Part(block, [mix, mlp]), Part(block + ".mix", [mix]), Part(block + ".mlp", [mlp])]
    return found


def stages(model: ModelConfig) -> "list[tuple[str, str, str]]":
    return residual_stages(model, "recurrence")


def no_attention(model: ModelConfig) -> list[str]:
    return []


# --- forward -------------------------------------------------------------------------------------------------


def forward(p: ModelProgram, tokens: Tensor) -> "tuple[Tensor, gpt.Saved]":
    return gpt.forward_with(p, tokens, block_with(p, scan_window))


def block_with(p: ModelProgram, scan: "Scan") -> "Callable[[int, Tensor], SavedBlock]":
    return lambda i, x: forward_block(p, i, x, scan)


def forward_block(p: ModelProgram, i: int, x: Tensor, scan: "Scan") -> SavedBlock:
    block, s = f"blocks.{i}.", SavedBlock()
    s.into_scan = p.norm_where("pre", block + "a", block + "ln1", x)
    s.gate = p.linear(s.into_scan.y, block + "mix.gate_proj", p.rows(block + "gate", p.C))
    s.value = p.linear(s.into_scan.y, block + "mix.value_proj", p.rows(block + "value", p.C))
    s.y = scan(p, i, s.gate, s.value)
    o = p.linear(s.y, block + "mix.o_proj", p.rows(block + "o", p.C))
    x_mid = p.add(o, x, block + "x_mid")
    s.out_of_scan = p.norm_where("post", block + "b", block + "ln1", x_mid)
    gpt.forward_mlp(p, block, s.out_of_scan.y, s)
    return s


def scan_window(p: ModelProgram, i: int, gate: Tensor, value: Tensor) -> Tensor:
    y = p.rows(f"blocks.{i}.y", p.C)
    p.call("scan", gate=gate, value=value, y=y, B=p.B, T=p.T, C=p.C)
    return y


# --- backward ------------------------------------------------------------------------------------------------


def backward(p: ModelProgram, tokens: Tensor, dlogits: Tensor, s: gpt.Saved) -> None:
    gpt.backward_with(p, tokens, dlogits, s, backward_block)


def backward_block(p: ModelProgram, i: int, s: SavedBlock, dx_out: Tensor) -> Tensor:
    block = f"blocks.{i}."
    dx_mid = gpt.backward_mlp(p, block, dx_out, s)
    dx_mid = p.backward_norm(block + "dx_post", dx_mid, s.out_of_scan)
    dy = p.backward_linear(dx_mid, s.y, block + "mix.o_proj", p.rows(block + "dy", p.C))
    dgate, dvalue = p.rows(block + "dgate", p.C), p.rows(block + "dvalue", p.C)
    sizes = {"B": p.B, "T": p.T, "C": p.C}
    p.call("scan_backward", dy=dy, gate=s.gate, value=s.value, y=s.y, dgate=dgate, dvalue=dvalue, **sizes)
    da_value = p.backward_linear(dvalue, s.into_scan.y, block + "mix.value_proj", p.rows(block + "da_value", p.C))
    da_gate = p.backward_linear(dgate, s.into_scan.y, block + "mix.gate_proj", p.rows(block + "da_gate", p.C))
    da = p.add(da_gate, da_value, block + "da")
    dx_mix = p.backward_norm(block + "dx_mix", da, s.into_scan)
    return p.add(dx_mix, dx_mid, block + "dx")


# --- looking inside, and writing -----------------------------------------------------------------------------


def inspect(p: ModelProgram, tokens: Tensor) -> Tensor:
    return gpt.inspect_with(p, tokens, block_with(p, scan_window))


def prefill(p: ModelProgram, tokens: Tensor, logits: Tensor) -> "Callable[[ModelProgram], None]":
    memory, rows = p.memory, p.N
    blocks = gpt.forward_blocks(p, gpt.embed(p, tokens)[0], block_with(p, scan_window))
    gpt.prefill_with(p, blocks[-1].out_of_mlp.y, logits)
    return lambda p: keep(p, blocks, N=rows, C=p.C, position=memory.position, row=memory.row, R=memory.texts)


def decode(p: ModelProgram, tokens: Tensor, logits: Tensor) -> "Callable[[ModelProgram], None]":
    blocks = gpt.forward_blocks(p, gpt.embed_newest(p, tokens), block_with(p, scan_newest))
    gpt.last_logits(p, blocks[-1].out_of_mlp.y, logits)
    return lambda p: keep(p, blocks, N=p.N, C=p.C, R=p.N)


def scan_newest(p: ModelProgram, i: int, gate: Tensor, value: Tensor) -> Tensor:
    y = p.rows(f"blocks.{i}.y", p.C)
    p.call("scan_one", gate=gate, value=value, state=p.memory.state[f"scanned.{i}"], y=y, C=p.C, R=p.N)
    return y


def keep(p: ModelProgram, blocks: list[SavedBlock], **where: "Any") -> None:
    """After the commit: a run that is abandoned before it must leave the states as they were."""
    for i in range(len(blocks)):
        p.call("scan_keep", x=blocks[i].y, state=p.memory.state[f"scanned.{i}"], **where)


MODEL = Model(
    outer_rows, block_rows, states, forward, backward, inspect, prefill, decode, parts, stages, lenses, no_attention,
    True,
)  # fmt: skip
