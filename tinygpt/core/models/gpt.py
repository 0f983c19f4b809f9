"""The model: forward, and the hand-derived backward as its mirror.

Read `forward_block` and `backward_block` side by side: each line of one has its counterpart in the other,
in reverse. `d` before a name is the gradient of the loss by it. The formulas are beside the kernels'
specifications in tinygpt/kernels/*.py. programs.py puts blocks together.
"""

from tinygpt.core.config import LAYERNORM_EPS, ModelConfig
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.linear import GELU
from tinygpt.core.ops.op import Program, Tensor


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
