"""The model: forward, and the hand-derived backward as its mirror.

Read `forward_block` and `backward_block` side by side: each line of one has its counterpart in the other, in reverse.
An addition passes its gradient on to both terms; where the stream had branched off, the two gradients are added.
`d` before a name is the gradient of the loss with respect to it. `p` is the program that is being written; layers.py
has its layers, with the model's options. gpt_anatomy.py lists the parameters; programs.py makes whole steps of this.
"""

from collections import namedtuple

from tinygpt.core.config import VOCAB
from tinygpt.core.models.gpt_anatomy import (
    attention_maps,
    block_rows,
    kv_caches,
    lenses,
    outer_rows,
    parts,
    residual_stages,
)
from tinygpt.core.models.layers import ModelProgram, Normed, Prepared
from tinygpt.core.models.model import Model
from tinygpt.core.models.ngrams import Picked, backward_ngrams, embed_newest_ngrams, embed_ngrams
from tinygpt.core.ops.op import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Attend = Callable[[ModelProgram, int, Tensor, Tensor], "Tensor | None"]  # block, qkv, y: returns lse
    Forward = Callable[[int, Tensor], Any]  # block, x: returns its SavedMlp
    Backward = Callable[[ModelProgram, int, Any, Tensor], Tensor]  # block, its SavedMlp, dx_out: returns dx

# What the forward pass leaves for the backward pass.
Saved = namedtuple("Saved", ("picked", "blocks", "norm_final", "uncapped"))


class SavedMlp:
    into_mlp: Normed
    u: Tensor  # [N, F], or of a gated MLP [N, 2F]
    h: Tensor  # [N, F]
    out_of_mlp: Normed  # its y is the block's output [N, C]


class SavedBlock(SavedMlp):
    into_attention: Normed
    angles: "Tensor | None"  # [T, D] of rotary positions
    prepared: Prepared  # its qkv is [N, 3C]
    y: Tensor  # [N, C] attention's output
    lse: "Tensor | None"  # [B, H, T] log-sum-exp of each row of scores
    out_of_attention: Normed


# --- forward -------------------------------------------------------------------------------------------------


def forward(p: ModelProgram, tokens: Tensor) -> "tuple[Tensor, Saved]":
    """The logits [N, V] of every row of whole windows."""
    return forward_with(p, tokens, block_with(p, attend_to_window))


def forward_with(p: ModelProgram, tokens: Tensor, block: "Forward") -> "tuple[Tensor, Saved]":
    """The same with any kind of block."""
    x, picked = embed(p, tokens)
    blocks = forward_blocks(p, x, block)
    norm_final = p.norm_where("pre", "f", "ln_final", blocks[-1].out_of_mlp.y)
    logits = p.rows("logits", VOCAB)
    return logits, Saved(picked, blocks, norm_final, p.head(norm_final.y, logits))


def embed(p: ModelProgram, tokens: Tensor) -> "tuple[Tensor, Picked | None]":
    """x [N, C], and what was picked from n-gram tables, if the model has such."""
    wte, wpe, x = p.weight["token_embedding.weight"], p.weight.get("position_embedding.weight"), embedding(p)
    if wpe is not None and wpe.shape[0] > p.T:
        wpe = wpe.view(wpe.name, (p.T, p.C), 0)
    p.call("embed", tokens=tokens, wte=wte, wpe=wpe, x=x, N=p.N, T=p.T, C=p.C)
    return embed_ngrams(p, tokens, x) if p.model.ngram_tables else (x, None)


def embedding(p: ModelProgram) -> Tensor:
    return p.rows("x_bytes" if p.model.ngram_tables else "x", p.C)


def forward_blocks(p: ModelProgram, x: Tensor, block: "Forward", lens: bool = False) -> "list[Any]":
    """With `lens`, also the logits that each block's input would give if it were the last, `blocks.i.lens` [N, V]."""
    blocks = []
    for i in range(p.model.layers):
        if lens:
            logits = p.rows(f"blocks.{i}.lens", VOCAB)
            p.head(p.norm_where("pre", f"blocks.{i}.f", "ln_final", x).y, logits)
        blocks.append(block(i, x))
        x = blocks[i].out_of_mlp.y
    return blocks


def block_with(p: ModelProgram, attend: "Attend", position: Tensor | None = None) -> "Forward":
    """A transformer block whose rows are at `position`, or at 0, 1, 2, ..."""
    angles = p.angles(position)
    return lambda i, x: forward_block(p, i, x, angles, attend)


def forward_block(p: ModelProgram, i: int, x: Tensor, angles: Tensor | None, attend: "Attend") -> SavedBlock:
    block, s = f"blocks.{i}.", SavedBlock()
    s.into_attention = p.norm_where("pre", block + "a", block + "ln1", x)
    qkv = p.linears(s.into_attention.y, qkv_maps(block), p.rows(block + "qkv", p.C + 2 * p.model.kv_width))
    s.angles, s.prepared = angles, p.prepare_qkv(block + "qkv", qkv, angles)
    s.y = p.rows(block + "y", p.C)
    s.lse = attend(p, i, s.prepared.qkv, s.y)
    o = p.linear(s.y, block + "attn.o_proj", p.rows(block + "o", p.C))
    x_mid = p.add(o, x, block + "x_mid")
    s.out_of_attention = p.norm_where("post", block + "b", block + "ln1", x_mid)
    forward_mlp(p, block, s.out_of_attention.y, s)
    return s


def forward_mlp(p: ModelProgram, block: str, x_mid: Tensor, s: SavedMlp) -> None:
    s.into_mlp = p.norm_where("pre", block + "b", block + "ln2", x_mid)
    s.u = p.linears(s.into_mlp.y, mlp_maps(p, block), p.rows(block + "u", p.U))
    s.h = p.activate(s.u, p.rows(block + "h", p.F))
    m = p.linear(s.h, block + "mlp.fc_out", p.rows(block + "m", p.C))
    x_out = p.add(m, x_mid, block + "x_out")
    s.out_of_mlp = p.norm_where("post", block + "c", block + "ln2", x_out)


def qkv_maps(block: str) -> list[str]:
    return [block + "attn.q_proj", block + "attn.k_proj", block + "attn.v_proj"]


def mlp_maps(p: ModelProgram, block: str) -> list[str]:
    """The maps into the MLP: a gated one has a second, for its gate."""
    gate = [block + "mlp.fc_gate"] if p.model.activation == "swiglu" else []
    return gate + [block + "mlp.fc_in"]


def attend_to_window(p: ModelProgram, i: int, qkv: Tensor, y: Tensor) -> Tensor | None:
    lse = p.tensor(f"blocks.{i}.lse", (p.B, p.H, p.T)) if p.learns else None
    p.call("attention", qkv=qkv, y=y, lse=lse, **attention_sizes(p))
    return lse


def attention_sizes(p: ModelProgram) -> dict[str, int]:
    return {"B": p.B, "T": p.T, "H": p.H, "D": p.D, "alibi": uses_alibi(p)}


def uses_alibi(p: ModelProgram) -> int:
    return int(p.model.positions == "alibi")


# --- backward ------------------------------------------------------------------------------------------------


def backward(p: ModelProgram, tokens: Tensor, dlogits: Tensor, s: Saved) -> None:
    backward_with(p, tokens, dlogits, s, backward_block)


def backward_with(p: ModelProgram, tokens: Tensor, dlogits: Tensor, s: Saved, block: "Backward") -> None:
    df = p.rows("df", p.C)
    p.backward_head(dlogits, s.uncapped, s.norm_final.y, df)
    dx = p.backward_norm("dx", df, s.norm_final)
    for i in range(p.model.layers - 1, -1, -1):
        dx = block(p, i, s.blocks[i], dx)
    backward_embed(p, tokens, dx, s.picked)


def backward_block(p: ModelProgram, i: int, s: SavedBlock, dx_out: Tensor) -> Tensor:
    block = f"blocks.{i}."
    dx_mid = backward_mlp(p, block, dx_out, s)
    dx_mid = p.backward_norm(block + "dx_post", dx_mid, s.out_of_attention)
    dy = p.backward_linear(dx_mid, s.y, block + "attn.o_proj", p.rows(block + "dy", p.C))
    dqkv = p.rows(block + "dqkv", 3 * p.C)
    qkv, sizes = s.prepared.qkv, attention_sizes(p)
    p.call("attention_backward", dy=dy, qkv=qkv, y=s.y, lse=s.lse, dqkv=dqkv, **sizes)
    dqkv = p.backward_prepare_qkv(block + "dqkv", s.prepared, dqkv, s.angles)
    da = p.backward_linears(dqkv, s.into_attention.y, qkv_maps(block), p.rows(block + "da", p.C))
    dx_attn = p.backward_norm(block + "dx_attn", da, s.into_attention)
    return p.add(dx_attn, dx_mid, block + "dx")


def backward_mlp(p: ModelProgram, block: str, dx_out: Tensor, s: SavedMlp) -> Tensor:
    dx_out = p.backward_norm(block + "dx_out", dx_out, s.out_of_mlp)
    dh = p.backward_linear(dx_out, s.h, block + "mlp.fc_out", p.rows(block + "dh", p.F))
    du = p.backward_activate(dh, s.u, p.rows(block + "du", p.U))
    db = p.backward_linears(du, s.into_mlp.y, mlp_maps(p, block), p.rows(block + "db", p.C))
    dx_mlp = p.backward_norm(block + "dx_mlp", db, s.into_mlp)
    return p.add(dx_mlp, dx_out, block + "dx_mid")


def backward_embed(p: ModelProgram, tokens: Tensor, dx: Tensor, picked: "Picked | None") -> None:
    if picked is not None:
        backward_ngrams(p, dx, picked)
    dwte, dwpe = p.memory.grad["token_embedding.weight"], p.memory.grad.get("position_embedding.weight")
    tied = int(p.model.tied_head == "on")
    p.call("embed_backward", tokens=tokens, dx=dx, dwte=dwte, dwpe=dwpe, N=p.N, T=p.T, V=VOCAB, C=p.C, tied=tied)


# --- looking inside ------------------------------------------------------------------------------------------


def inspect(p: ModelProgram, tokens: Tensor) -> Tensor:
    """Forward, with tensors that exist only to be looked at: lenses, and attention's weights, `blocks.i.p`
    [B, H, T, T]."""
    return inspect_with(p, tokens, block_with(p, attend_visibly))


def inspect_with(p: ModelProgram, tokens: Tensor, block: "Forward") -> Tensor:
    blocks, logits = forward_blocks(p, embed(p, tokens)[0], block, lens=True), p.rows("logits", VOCAB)
    last_logits(p, blocks[-1].out_of_mlp.y, logits)
    return logits


def attend_visibly(p: ModelProgram, i: int, qkv: Tensor, y: Tensor) -> Tensor:
    lse = p.tensor(f"blocks.{i}.lse", (p.B, p.H, p.T))
    weights = p.tensor(f"blocks.{i}.p", (p.B, p.H, p.T, p.T))
    p.call("attention", qkv=qkv, y=y, lse=lse, **attention_sizes(p))
    p.call("attention_weights", qkv=qkv, lse=lse, p=weights, **attention_sizes(p))
    return lse


# --- writing, with KV caches ---------------------------------------------------------------------------------


def prefill(p: ModelProgram, tokens: Tensor, logits: Tensor) -> None:
    """Read the prompt of the text `row`: keys and values go to its cache, and the logits are the newest byte's."""
    block = block_with(p, attend_and_cache)
    prefill_with(p, forward_blocks(p, embed(p, tokens)[0], block)[-1].out_of_mlp.y, logits)


def prefill_with(p: ModelProgram, x: Tensor, logits: Tensor) -> None:
    """The logits of the row of `x` that the prompt's last byte is."""
    memory, last = p.memory, p.tensor("last", (1, p.C))
    p.call("pick_row", x=x, position=memory.position, row=memory.row, y=last, N=p.N, C=p.C, R=memory.texts)
    p.N = 1
    last_logits(p, last, logits)


def attend_and_cache(p: ModelProgram, i: int, qkv: Tensor, y: Tensor) -> Tensor | None:
    attend_to_window(p, i, qkv, y)
    k, v, sizes = p.memory.state[f"cache_k.{i}"], p.memory.state[f"cache_v.{i}"], {"N": p.N, "T": p.model.ctx}
    p.call("cache_fill", qkv=qkv, row=p.memory.row, cache_k=k, cache_v=v, C=p.C, R=p.memory.texts, **sizes)
    return None


def decode(p: ModelProgram, tokens: Tensor, logits: Tensor) -> None:
    """Read the newest byte of every text, each attending to its own cache."""
    block = block_with(p, attend_to_cache, p.memory.position)
    last_logits(p, forward_blocks(p, embed_newest(p, tokens), block)[-1].out_of_mlp.y, logits)


def embed_newest(p: ModelProgram, tokens: Tensor) -> Tensor:
    wte, wpe, x = p.weight["token_embedding.weight"], p.weight.get("position_embedding.weight"), embedding(p)
    p.call("embed_one", tokens=tokens, position=p.memory.position, wte=wte, wpe=wpe, x=x, C=p.C, R=p.N)
    return embed_newest_ngrams(p, tokens, x) if p.model.ngram_tables else x


def attend_to_cache(p: ModelProgram, i: int, qkv: Tensor, y: Tensor) -> Tensor | None:
    k, v, position = p.memory.state[f"cache_k.{i}"], p.memory.state[f"cache_v.{i}"], p.memory.position
    sizes = {"T": p.model.ctx, "H": p.H, "D": p.D, "alibi": uses_alibi(p), "R": p.N}
    p.call("attention_one", qkv=qkv, position=position, y=y, cache_k=k, cache_v=v, **sizes)
    return None


def last_logits(p: ModelProgram, x: Tensor, logits: Tensor) -> None:
    """The logits that follow rows of the last block's output."""
    p.head(p.norm_where("pre", "f", "ln_final", x).y, logits)


MODEL = Model(
    outer_rows, block_rows, kv_caches, forward, backward, inspect, prefill, decode, parts, residual_stages, lenses,
    attention_maps, True,
)  # fmt: skip
