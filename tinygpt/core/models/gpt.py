"""The whole model as programs: forward, and the hand-derived backward as its mirror.

Read `forward_block` and `backward_block` side by side: each line of one has its counterpart in the other,
in reverse. `d` before a name is the gradient of the loss by it. The formulas are beside the kernels'
specifications in tinygpt/kernels/*.py.
"""

from tinygpt.core.config import LAYERNORM_EPS, VOCAB, ModelConfig, RunConfig
from tinygpt.core.ops.linear import GELU
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.plan.layout import Layout


class Memory:
    """The tensors that outlive a run, shared by all programs of a model."""

    def __init__(self, config: RunConfig) -> None:
        model = config.model
        N = config.train.batch * model.ctx
        self.layout = Layout(model)
        size = (self.layout.size,)
        self.weights = Tensor("weights", size, "weight")
        self.grads = Tensor("grads", size, "grad")
        self.m = Tensor("m", size, "m")
        self.v = Tensor("v", size, "v")
        self.tokens = Tensor("tokens", (N,), "input", "i32")
        self.targets = Tensor("targets", (N,), "input", "i32")
        self.rates = Tensor("rates", (3,), "input")
        self.loss = Tensor("loss", (1,), "output")
        self.losses = Tensor("losses", (N,), "output")
        self.norm = Tensor("norm", (2,), "output")
        self.prompt = Tensor("prompt", (model.ctx,), "input", "i32")
        self.position = Tensor("position", (1,), "input", "i32")
        self.next_logits = Tensor("next_logits", (VOCAB,), "output")
        self.cache_k = [Tensor(f"cache_k.{i}", (model.ctx, model.d_model), "cache") for i in range(model.layers)]
        self.cache_v = [Tensor(f"cache_v.{i}", (model.ctx, model.d_model), "cache") for i in range(model.layers)]
        self.weight = self.views(self.weights, "")
        self.grad = self.views(self.grads, "d")

    def views(self, flat: Tensor, prefix: str) -> dict[str, Tensor]:
        """The tensors inside a flat vector, by name."""
        result = {}
        for place in self.layout.places:
            view = Tensor(prefix + place.name, place.shape, flat.kind)
            view.inside, view.start = flat, place.start
            result[place.name] = view
        return result

    def tensors(self) -> list[Tensor]:
        """Those with memory of their own, in the order of the arena."""
        flat = [self.weights, self.grads, self.m, self.v, self.tokens, self.targets, self.rates, self.loss]
        flat += [self.losses, self.norm, self.prompt, self.position, self.next_logits]
        return flat + self.cache_k + self.cache_v


class BlockActivations:
    """What a block's forward pass leaves for its backward pass."""

    x: Tensor  # [N, C] the block's input
    a: Tensor  # [N, C] after the first norm
    mean1: Tensor  # [N]
    rstd1: Tensor
    qkv: Tensor  # [N, 3C]
    y: Tensor  # [N, C] attention's output
    lse: "Tensor | None"  # [B, H, T]
    x_mid: Tensor  # [N, C] after the attention's residual
    b: Tensor  # [N, C] after the second norm
    mean2: Tensor
    rstd2: Tensor
    h: Tensor  # [N, 4C] after GELU
    slope: "Tensor | None"  # [N, 4C] GELU's derivative
    x_out: Tensor  # [N, C] the block's output


class ModelProgram(Program):
    """A program over `rows` = B * T rows of one model."""

    def __init__(self, mode: str, model: ModelConfig, memory: Memory, B: int, T: int, keep: bool) -> None:
        Program.__init__(self, mode)
        self.model = model
        self.memory = memory
        self.B, self.T, self.N = B, T, B * T
        self.C, self.H, self.D, self.F = model.d_model, model.heads, model.head_size, model.d_mlp
        self.keep = keep  # whether a backward pass will follow

    def rows(self, name: str, width: int) -> Tensor:
        return self.tensor(name, (self.N, width))

    def norm(self, name: str, which: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, mean, rstd = (
            self.rows(name, self.C),
            self.tensor(name + ".mean", (self.N,)),
            self.tensor(name + ".rstd", (self.N,)),
        )
        w = self.memory.weight
        self.call(
            "layernorm", x=x, gain=w[which + ".weight"], bias=w[which + ".bias"],
            y=y, mean=mean, rstd=rstd, N=self.N, C=self.C, eps=LAYERNORM_EPS,
        )  # fmt: skip
        return y, mean, rstd

    def linear(self, x: Tensor, which: str, y: Tensor, residual: Tensor | None = None) -> None:
        weight, bias = self.memory.weight[which + ".weight"], self.memory.weight.get(which + ".bias")
        O, I = weight.shape  # noqa: E741
        self.call("linear", x=x, weight=weight, bias=bias, residual=residual, y=y, N=self.N, O=O, I=I)

    # --- forward ---------------------------------------------------------------------------------------

    def forward_block(self, i: int, x: Tensor) -> BlockActivations:
        w, block, s = self.memory.weight, f"blocks.{i}.", BlockActivations()
        s.x = x
        s.a, s.mean1, s.rstd1 = self.norm(block + "a", block + "ln1", x)
        s.qkv = self.rows(block + "qkv", 3 * self.C)
        self.linear(s.a, block + "attn.qkv", s.qkv)
        s.y = self.rows(block + "y", self.C)
        self.attention(i, s)
        s.x_mid = self.rows(block + "x_mid", self.C)
        self.linear(s.y, block + "attn.o_proj", s.x_mid, residual=x)
        s.b, s.mean2, s.rstd2 = self.norm(block + "b", block + "ln2", s.x_mid)
        s.h = self.rows(block + "h", self.F)
        s.slope = self.rows(block + "slope", self.F) if self.keep else None
        self.call(
            "linear_activation", x=s.b, weight=w[block + "mlp.fc_in.weight"], bias=w[block + "mlp.fc_in.bias"],
            y=s.h, slope=s.slope, N=self.N, O=self.F, I=self.C, kind=GELU,
        )  # fmt: skip
        s.x_out = self.rows(block + "x_out", self.C)
        self.linear(s.h, block + "mlp.fc_out", s.x_out, residual=s.x_mid)
        return s

    def attention(self, i: int, s: BlockActivations) -> None:
        s.lse = self.tensor(f"blocks.{i}.lse", (self.B, self.H, self.T)) if self.keep else None
        self.call("attention", qkv=s.qkv, y=s.y, lse=s.lse, B=self.B, T=self.T, H=self.H, D=self.D)

    # --- backward --------------------------------------------------------------------------------------

    def backward_linear(
        self, dy: Tensor, x: Tensor, which: str, dx: Tensor, accumulate: int, slope: Tensor | None = None
    ) -> None:
        """dx = dy W (* slope), dW (+)= dy^T x, db (+)= column sums of dy."""
        weight = self.memory.weight[which + ".weight"]
        dweight, dbias = self.memory.grad[which + ".weight"], self.memory.grad.get(which + ".bias")
        O, I = weight.shape  # noqa: E741
        self.call("linear_backward_input", dy=dy, weight=weight, slope=slope, dx=dx, N=self.N, O=O, I=I)
        self.call(
            "linear_backward_weight",
            dy=dy,
            x=x,
            dweight=dweight,
            dbias=dbias,
            N=self.N,
            O=O,
            I=I,
            accumulate=accumulate,
        )

    def backward_norm(
        self,
        dy: Tensor,
        x: Tensor,
        which: str,
        mean: Tensor,
        rstd: Tensor,
        residual: Tensor | None,
        dx: Tensor,
        accumulate: int,
    ) -> None:
        g = self.memory.grad
        self.call(
            "layernorm_backward", dy=dy, x=x, gain=self.memory.weight[which + ".weight"], mean=mean, rstd=rstd,
            dresidual=residual, dx=dx, dgain=g[which + ".weight"], dbias=g[which + ".bias"],
            N=self.N, C=self.C, accumulate=accumulate,
        )  # fmt: skip

    def backward_block(self, i: int, s: BlockActivations, dx_out: Tensor, accumulate: int) -> Tensor:
        block = f"blocks.{i}."
        dh = self.rows(block + "dh", self.F)
        self.backward_linear(dx_out, s.h, block + "mlp.fc_out", dh, accumulate, slope=s.slope)
        db = self.rows(block + "db", self.C)
        self.backward_linear(dh, s.b, block + "mlp.fc_in", db, accumulate)
        dx_mid = self.rows(block + "dx_mid", self.C)
        self.backward_norm(db, s.x_mid, block + "ln2", s.mean2, s.rstd2, dx_out, dx_mid, accumulate)
        dy = self.rows(block + "dy", self.C)
        self.backward_linear(dx_mid, s.y, block + "attn.o_proj", dy, accumulate)
        dqkv = self.rows(block + "dqkv", 3 * self.C)
        self.call(
            "attention_backward", dy=dy, qkv=s.qkv, y=s.y, lse=s.lse, dqkv=dqkv, B=self.B, T=self.T, H=self.H, D=self.D
        )
        da = self.rows(block + "da", self.C)
        self.backward_linear(dqkv, s.a, block + "attn.qkv", da, accumulate)
        dx = self.rows(block + "dx", self.C)
        self.backward_norm(da, s.x, block + "ln1", s.mean1, s.rstd1, dx_mid, dx, accumulate)
        return dx


def embed(p: ModelProgram) -> Tensor:
    w = p.memory.weight
    x = p.rows("x", p.C)
    wte, wpe = w["token_embedding.weight"], w["position_embedding.weight"]
    p.call("embed", tokens=p.memory.tokens, wte=wte, wpe=wpe, x=x, N=p.N, T=p.T, C=p.C)
    return x


def gradient_program(config: RunConfig, memory: Memory, accumulate: int, update: bool) -> Program:
    """Forward and backward of one batch; with `update`, the optimizer's step too (mode "train").

    `accumulate` 0 overwrites the gradients and the loss, 1 adds to them.
    """
    train = config.train
    mode = "train" if update else ("accumulate" if accumulate else "gradient")
    p = ModelProgram(mode, config.model, memory, train.batch, config.model.ctx, keep=True)
    g = memory.grad
    count = p.N * train.grad_accum

    x = embed(p)
    saved = []
    for i in range(config.model.layers):
        saved.append(p.forward_block(i, x))
        x = saved[i].x_out
    f, mean, rstd = p.norm("f", "ln_final", x)
    logits = p.rows("logits", VOCAB)
    p.linear(f, "token_embedding", logits)  # the head is the embedding table, transposed
    dlogits = p.rows("dlogits", VOCAB)
    p.call(
        "cross_entropy", logits=logits, targets=memory.targets, losses=memory.losses, dlogits=dlogits,
        N=p.N, V=VOCAB, count=count,
    )  # fmt: skip
    p.call("mean_loss", losses=memory.losses, loss=memory.loss, N=p.N, accumulate=accumulate, count=count)

    df = p.rows("df", p.C)
    p.backward_linear(dlogits, f, "token_embedding", df, accumulate)
    dx = p.rows("dx", p.C)
    p.backward_norm(df, x, "ln_final", mean, rstd, None, dx, accumulate)
    for i in range(config.model.layers - 1, -1, -1):
        dx = p.backward_block(i, saved[i], dx, accumulate)
    p.call(
        "embed_backward", tokens=memory.tokens, dx=dx, dwte=g["token_embedding.weight"],
        dwpe=g["position_embedding.weight"], N=p.N, T=p.T, V=VOCAB, C=p.C,
        accumulate=accumulate, tied=1,
    )  # fmt: skip
    if update:
        add_update(p, config, memory)
    return p


def add_update(p: Program, config: RunConfig, memory: Memory) -> None:
    """Clip by the global norm, then AdamW over the flat vector."""
    train, P = config.train, memory.layout.size
    p.call("grad_norm", grads=memory.grads, norm=memory.norm, P=P, limit=train.grad_clip)
    p.call(
        "adamw", grads=memory.grads, norm=memory.norm, rates=memory.rates,
        weights=memory.weights, m=memory.m, v=memory.v, P=P,
        decayed=memory.layout.decayed, beta1=train.beta1, beta2=train.beta2, eps=train.eps,
    )  # fmt: skip


def update_program(config: RunConfig, memory: Memory) -> Program:
    p = Program("update")
    add_update(p, config, memory)
    return p


def eval_program(config: RunConfig, memory: Memory) -> Program:
    """The loss of each row of a batch."""
    p = ModelProgram("eval", config.model, memory, config.train.batch, config.model.ctx, keep=False)
    x = embed(p)
    for i in range(config.model.layers):
        x = p.forward_block(i, x).x_out
    f, _, _ = p.norm("f", "ln_final", x)
    logits = p.rows("logits", VOCAB)
    p.linear(f, "token_embedding", logits)
    p.call("cross_entropy", logits=logits, targets=memory.targets, losses=memory.losses, N=p.N, V=VOCAB, count=p.N)
    return p


class PrefillProgram(ModelProgram):
    """A whole window at once; its keys and values go to the cache."""

    def attention(self, i: int, s: BlockActivations) -> None:
        ModelProgram.attention(self, i, s)
        k, v = self.memory.cache_k[i], self.memory.cache_v[i]
        self.call("cache_fill", qkv=s.qkv, cache_k=k, cache_v=v, T=self.T, C=self.C)


class DecodeProgram(ModelProgram):
    """One token, attending to the cache."""

    def attention(self, i: int, s: BlockActivations) -> None:
        k, v, position = self.memory.cache_k[i], self.memory.cache_v[i], self.memory.position
        self.call(
            "attention_one",
            qkv=s.qkv,
            position=position,
            y=s.y,
            cache_k=k,
            cache_v=v,
            T=self.model.ctx,
            H=self.H,
            D=self.D,
        )


def add_next_logits(p: ModelProgram, row: Tensor) -> None:
    """The logits that follow one row [1, C] of the last block's output."""
    p.N = 1
    f, _, _ = p.norm("f", "ln_final", row)
    p.linear(f, "token_embedding", p.memory.next_logits)


def prefill_program(config: RunConfig, memory: Memory) -> Program:
    """Fill the cache from `prompt`, of which the rows after `position` do not count; logits after `position`."""
    p = PrefillProgram("prefill", config.model, memory, 1, config.model.ctx, keep=False)
    w = memory.weight
    x = p.rows("x", p.C)
    wte, wpe = w["token_embedding.weight"], w["position_embedding.weight"]
    p.call("embed", tokens=memory.prompt, wte=wte, wpe=wpe, x=x, N=p.N, T=p.T, C=p.C)
    for i in range(config.model.layers):
        x = p.forward_block(i, x).x_out
    last = p.tensor("last", (1, p.C))
    p.call("pick_row", x=x, position=memory.position, y=last, N=p.N, C=p.C)
    add_next_logits(p, last)
    return p


def decode_program(config: RunConfig, memory: Memory) -> Program:
    """One more token: `prompt[0]`, at row `position`."""
    p = DecodeProgram("decode", config.model, memory, 1, 1, keep=False)
    w = memory.weight
    x = p.rows("x", p.C)
    wte, wpe = w["token_embedding.weight"], w["position_embedding.weight"]
    p.call("embed_one", tokens=memory.prompt, position=memory.position, wte=wte, wpe=wpe, x=x, C=p.C)
    for i in range(config.model.layers):
        x = p.forward_block(i, x).x_out
    add_next_logits(p, x)
    return p


def programs(config: RunConfig) -> tuple[Memory, list[Program]]:
    """Every program of a run, over one memory. Without gradient accumulation "train" is a whole step;
    with it a step is "gradient", then "accumulate" for each further batch, then "update"."""
    memory = Memory(config)
    if config.train.grad_accum == 1:
        step = [gradient_program(config, memory, 0, True)]
    else:
        step = [
            gradient_program(config, memory, 0, False),
            gradient_program(config, memory, 1, False),
            update_program(config, memory),
        ]
    return memory, step + [
        eval_program(config, memory),
        prefill_program(config, memory),
        decode_program(config, memory),
    ]
