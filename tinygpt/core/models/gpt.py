"""The model: forward, and the hand-derived backward as its mirror.

Read `forward_block` and `backward_block` side by side: each line of one has its counterpart in the other,
in reverse. `d` before a name is the gradient of the loss by it. layers.py has the layers, with the model's options;
programs.py makes programs of this.
"""

from tinygpt.core.config import VOCAB, RunConfig
from tinygpt.core.models.layers import Bent, LayeredProgram, Normed, Queried
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.op import Tensor

# The places where numbers are dropped: behind the embedding, and behind both branches of block i.
EMBEDDING = 0
ATTENTION = 1  # + 2 i
MLP = 2  # + 2 i


class BlockActivations:
    """What a block's forward pass leaves for its backward pass."""

    into_attention: Normed
    queried: Queried  # its qkv is [N, 3C]
    y: Tensor  # [N, C] attention's output
    lse: "Tensor | None"  # [B, H, T]
    out_of_attention: Normed
    into_mlp: Normed
    bent: Bent  # its h is [N, F]
    out_of_mlp: Normed  # its y is the block's output [N, C]


class GptProgram(LayeredProgram):
    """Whole windows at once."""

    def __init__(self, mode: str, config: RunConfig, memory: Memory, B: int, T: int, learns: bool) -> None:
        LayeredProgram.__init__(self, mode, config, memory, B, T, learns)
        self.alibi = int(self.model.positions == "alibi")
        self.saved: list[BlockActivations] = []

    # --- forward ---------------------------------------------------------------------------------------------

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.stream(tokens)
        self.norm_final = self.norm_where("pre", "f", "ln_final", x)
        logits = self.rows("logits", VOCAB)
        self.uncapped = self.head(self.norm_final.y, logits)
        return logits

    def stream(self, tokens: Tensor) -> Tensor:
        """The last block's output [N, C]."""
        self.table = self.turns()
        x = self.drop(self.embed(tokens), EMBEDDING, "x.dropped")
        for i in range(self.model.layers):
            self.saved.append(self.forward_block(i, x))
            x = self.saved[i].out_of_mlp.y
        return x

    def embed(self, tokens: Tensor) -> Tensor:
        w, x = self.weight, self.rows("x", self.C)
        wte, wpe = w["token_embedding.weight"], w.get("position_embedding.weight")
        if wpe is not None and wpe.shape[0] > self.T:
            wpe = wpe.view(wpe.name, (self.T, self.C), 0)
        self.call("embed", tokens=tokens, wte=wte, wpe=wpe, x=x, N=self.N, T=self.T, C=self.C)
        return x

    def forward_block(self, i: int, x: Tensor) -> BlockActivations:
        block, s = f"blocks.{i}.", BlockActivations()
        s.into_attention = self.norm_where("pre", block + "a", block + "ln1", x)
        qkv = self.rows(block + "qkv", self.C + 2 * self.model.kv_width)
        self.linear(s.into_attention.y, block + "attn.qkv", qkv)
        s.queried = self.queries(block + "qkv", qkv, self.table)
        s.y = self.rows(block + "y", self.C)
        self.attention(i, s)
        x_mid = self.branch(s.y, block + "attn.o_proj", x, block + "x_mid", ATTENTION + 2 * i)
        s.out_of_attention = self.norm_where("post", block + "b", block + "ln1", x_mid)
        s.into_mlp = self.norm_where("pre", block + "b", block + "ln2", s.out_of_attention.y)
        s.bent = self.bend(block, s.into_mlp.y)
        x_out = self.branch(s.bent.h, block + "mlp.fc_out", s.out_of_attention.y, block + "x_out", MLP + 2 * i)
        s.out_of_mlp = self.norm_where("post", block + "c", block + "ln2", x_out)
        return s

    def attention(self, i: int, s: BlockActivations) -> None:
        s.lse = self.tensor(f"blocks.{i}.lse", (self.B, self.H, self.T)) if self.learns else None
        self.call(
            "attention", qkv=s.queried.qkv, y=s.y, lse=s.lse, B=self.B, T=self.T, H=self.H, D=self.D, alibi=self.alibi
        )

    # --- backward --------------------------------------------------------------------------------------------

    def backward(self, tokens: Tensor, dlogits: Tensor, accumulate: int) -> None:
        df = self.rows("df", self.C)
        self.backward_head(dlogits, self.uncapped, self.norm_final.y, df, accumulate)
        dx = self.backward_norm("dx", df, self.norm_final, None, accumulate)
        for i in range(self.model.layers - 1, -1, -1):
            dx = self.backward_block(i, self.saved[i], dx, accumulate)
        self.backward_embed(tokens, self.drop(dx, EMBEDDING, "dx.dropped"), accumulate)

    def backward_block(self, i: int, s: BlockActivations, dx_out: Tensor, accumulate: int) -> Tensor:
        block, on_top = f"blocks.{i}.", int(self.model.norm_place == "post")
        dx_out = self.backward_norm(block + "dx_out", dx_out, s.out_of_mlp, None, accumulate)
        dh = self.rows(block + "dh", self.F)
        self.backward_branch(dx_out, s.bent.h, block + "mlp.fc_out", dh, accumulate, MLP + 2 * i, slope=s.bent.slope)
        db = self.backward_input(block + "db", s.into_mlp, dx_out)
        self.backward_bend(block, s.bent, dh, s.into_mlp.y, db, accumulate, on_top)
        dx_mid = self.backward_norm(block + "dx_mid", db, s.into_mlp, dx_out, accumulate)
        dx_mid = self.backward_norm(block + "dx_mid", dx_mid, s.out_of_attention, None, accumulate)
        dy = self.rows(block + "dy", self.C)
        self.backward_branch(dx_mid, s.y, block + "attn.o_proj", dy, accumulate, ATTENTION + 2 * i)
        dqkv = self.rows(block + "dqkv", 3 * self.C)
        self.call(
            "attention_backward", dy=dy, qkv=s.queried.qkv, y=s.y, lse=s.lse, dqkv=dqkv, B=self.B, T=self.T, H=self.H,
            D=self.D, alibi=self.alibi,
        )  # fmt: skip
        dqkv = self.backward_queries(block + "dqkv", s.queried, dqkv, self.table)
        da = self.backward_input(block + "da", s.into_attention, dx_mid)
        self.backward_linear(dqkv, s.into_attention.y, block + "attn.qkv", da, accumulate, on_top=on_top)
        return self.backward_norm(block + "dx", da, s.into_attention, dx_mid, accumulate)

    def backward_embed(self, tokens: Tensor, dx: Tensor, accumulate: int) -> None:
        g = self.memory.grad
        if "token_embedding.weight" not in g:
            return  # it is frozen
        dwte, dwpe = g["token_embedding.weight"], g.get("position_embedding.weight")
        self.call(
            "embed_backward", tokens=tokens, dx=dx, dwte=dwte, dwpe=dwpe, N=self.N, T=self.T, V=VOCAB, C=self.C,
            accumulate=accumulate, tied=int(self.model.tied_head == "on"),
        )  # fmt: skip

    # --- newest rows -----------------------------------------------------------------------------------------

    def last_logits(self, rows: Tensor, logits: Tensor) -> None:
        """The logits [R, V] that follow some rows [R, C] of the last block's output."""
        self.N = rows.shape[0]
        self.head(self.norm_where("pre", "f", "ln_final", rows).y, logits)


class GptInspect(GptProgram):
    """Forward, with what is not computed but to be looked at: the weights of attention, `blocks.i.p` [B, H, T, T], and
    what each block's input would say if it were the last, `blocks.i.lens` [N, V]."""

    def forward_block(self, i: int, x: Tensor) -> BlockActivations:
        lens = self.rows(f"blocks.{i}.lens", VOCAB)
        self.head(self.norm_where("pre", f"blocks.{i}.f", "ln_final", x).y, lens)
        return GptProgram.forward_block(self, i, x)

    def attention(self, i: int, s: BlockActivations) -> None:
        y, qkv = s.y, s.queried.qkv
        s.lse = self.tensor(f"blocks.{i}.lse", (self.B, self.H, self.T))
        p = self.tensor(f"blocks.{i}.p", (self.B, self.H, self.T, self.T))
        sizes = {"B": self.B, "T": self.T, "H": self.H, "D": self.D, "alibi": self.alibi}
        self.call("attention", qkv=qkv, y=y, lse=s.lse, **sizes)
        self.call("attention_weights", qkv=qkv, lse=s.lse, p=p, **sizes)


class GptPrefill(GptProgram):
    """A window at once, or its first rows; their keys and values go to the cache of the text `row`."""

    def __init__(self, mode: str, config: RunConfig, memory: Memory, rows: int) -> None:
        GptProgram.__init__(self, mode, config, memory, 1, rows, learns=False)

    def next_logits(self, tokens: Tensor, logits: Tensor) -> None:
        x, memory = self.stream(tokens), self.memory
        last = self.tensor("last", (1, self.C))
        self.call("pick_row", x=x, position=memory.position, row=memory.row, y=last, N=self.N, C=self.C, R=memory.texts)
        self.last_logits(last, logits)

    def attention(self, i: int, s: BlockActivations) -> None:
        GptProgram.attention(self, i, s)
        row, k, v, texts = self.memory.row, self.memory.cache_k[i], self.memory.cache_v[i], self.memory.texts
        self.call(
            "cache_fill",
            qkv=s.queried.qkv,
            row=row,
            cache_k=k,
            cache_v=v,
            N=self.N,
            T=self.model.ctx,
            C=self.C,
            R=texts,
        )


class GptDecode(GptProgram):
    """One token of each text, attending to the text's cache."""

    def __init__(self, config: RunConfig, memory: Memory) -> None:
        GptProgram.__init__(self, "decode", config, memory, 1, memory.texts, learns=False)

    def next_logits(self, tokens: Tensor, logits: Tensor) -> None:
        self.last_logits(self.stream(tokens), logits)

    def position(self) -> Tensor | None:
        return self.memory.position

    def embed(self, tokens: Tensor) -> Tensor:
        w, x, position = self.weight, self.rows("x", self.C), self.memory.position
        wte, wpe = w["token_embedding.weight"], w.get("position_embedding.weight")
        self.call("embed_one", tokens=tokens, position=position, wte=wte, wpe=wpe, x=x, C=self.C, R=self.N)
        return x

    def attention(self, i: int, s: BlockActivations) -> None:
        k, v, T = self.memory.cache_k[i], self.memory.cache_v[i], self.model.ctx
        self.call(
            "attention_one", qkv=s.queried.qkv, position=self.memory.position, y=s.y, cache_k=k, cache_v=v, T=T,
            H=self.H, D=self.D, alibi=self.alibi, R=self.N,
        )  # fmt: skip
