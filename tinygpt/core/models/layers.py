"""The program that a model is written into, layer by layer, each layer with its gradient beside it.

Which kernels a layer calls depends on the model's options. `d` before a name is the gradient of the loss with respect
to it. A layer returns a record of what its gradient needs. The formulas are beside the kernels' specifications in
tinygpt/kernels/*.py.
"""

from collections import namedtuple

from tinygpt.core.config import LAYERNORM_EPS, ROTARY_BASE, VOCAB, RunConfig
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.core.ops.op import Program, Tensor

# stats: what the backward pass needs of each row. Where the model has no norm here, `which` is None and y is x.
Normed = namedtuple("Normed", ("which", "x", "y", "stats"))
# qkv: q, k and v as attention takes them; normed, rstd: what the backward pass of the q/k norm needs
Prepared = namedtuple("Prepared", ("qkv", "normed", "rstd"))
KINDS = {"gelu": GELU, "relu2": RELU2}


class ModelProgram(Program):
    """A program over N = B * T rows of one model. With `learns`, a backward pass follows the forward pass."""

    def __init__(self, mode: str, config: RunConfig, memory: Memory, B: int, T: int, learns: bool) -> None:
        Program.__init__(self, mode)
        self.model, self.memory = config.model, memory
        self.weight = memory.live_weight if learns else memory.weight  # by name
        self.B, self.T, self.N = B, T, B * T
        self.learns = learns
        self.head_name = "token_embedding" if self.model.tied_head == "on" else "lm_head"
        self.C, self.H, self.D, self.F = self.model.d_model, self.model.heads, self.model.head_size, self.model.d_mlp
        self.U = 2 * self.F if self.model.activation == "swiglu" else self.F  # columns that an activation takes

    def rows(self, name: str, width: int) -> Tensor:
        return self.tensor(name, (self.N, width))

    # --- linear maps ------------------------------------------------------------------------------------------

    def linear(self, x: Tensor, which: str, y: Tensor) -> Tensor:
        """y = x W^T + b"""
        weight, bias = self.weight[which + ".weight"], self.weight.get(which + ".bias")
        O, I = weight.shape  # noqa: E741
        self.call("linear", x=x, weight=weight, bias=bias, y=y, N=self.N, O=O, I=I)
        return y

    def backward_linear(self, dy: Tensor, x: Tensor, which: str, dx: Tensor, accumulate: int = 0) -> Tensor:
        """dx = dy W, dweight = dy^T x, dbias = column sums of dy. With `accumulate`, dx += dy W."""
        weight, grad = self.weight[which + ".weight"], self.memory.grad
        dweight, dbias = grad[which + ".weight"], grad.get(which + ".bias")
        sizes = {"N": self.N, "O": weight.shape[0], "I": weight.shape[1]}
        self.call("linear_backward_input", dy=dy, weight=weight, dx=dx, accumulate=accumulate, **sizes)
        self.call("linear_backward_weight", dy=dy, x=x, dweight=dweight, dbias=dbias, **sizes)
        return dx

    def linears(self, x: Tensor, maps: list[str], y: Tensor) -> Tensor:
        """Linear maps of one input, each to columns of its own: y = [x W1^T + b1, x W2^T + b2, ...]"""
        columns = self.columns_of(y, maps)
        for i in range(len(maps)):
            self.linear(x, maps[i], columns[i])
        return y

    def backward_linears(self, dy: Tensor, x: Tensor, maps: list[str], dx: Tensor) -> Tensor:
        """dx = dy1 W1 + dy2 W2 + ..., since each of the maps read x."""
        columns = self.columns_of(dy, maps)
        for i in range(len(maps)):
            self.backward_linear(columns[i], x, maps[i], dx, accumulate=int(i > 0))
        return dx

    def columns_of(self, y: Tensor, maps: list[str]) -> list[Tensor]:
        widths = [self.weight[which + ".weight"].shape[0] for which in maps]
        return [y.columns(sum(widths[:i]), widths[i]) for i in range(len(maps))] if len(maps) > 1 else [y]

    def add(self, x: Tensor, residual: Tensor, name: str) -> Tensor:
        """y = x + residual, so the gradient of y is that of both."""
        y = self.rows(name, self.C)
        self.call("add", x=x, residual=residual, y=y, N=self.N, C=self.C)
        return y

    # --- norms -----------------------------------------------------------------------------------------------

    def norm_where(self, place: str, name: str, which: str, x: Tensor) -> Normed:
        """A norm, if that is the place where this model has its norms."""
        return self.norm(name, which, x) if self.model.norm_place == place else Normed(None, x, x, None)

    def norm(self, name: str, which: str, x: Tensor) -> Normed:
        gain, bias = self.weight[which + ".weight"], self.weight.get(which + ".bias")
        y = self.rows(name, self.C)
        if self.model.norm == "rmsnorm":
            rstd = self.tensor(name + ".rstd", (self.N,))
            self.call("rmsnorm", x=x, gain=gain, y=y, rstd=rstd, N=self.N, C=self.C, eps=LAYERNORM_EPS)
            return Normed(which, x, y, rstd)
        stats = self.tensor(name + ".stats", (self.N, 2))
        self.call("layernorm", x=x, gain=gain, bias=bias, y=y, stats=stats, N=self.N, C=self.C, eps=LAYERNORM_EPS)
        return Normed(which, x, y, stats)

    def backward_norm(self, name: str, dy: Tensor, s: Normed) -> Tensor:
        if not s.which:
            return dy
        dx, gain = self.rows(name, self.C), self.weight[s.which + ".weight"]
        dgain, dbias = self.memory.grad[s.which + ".weight"], self.memory.grad.get(s.which + ".bias")
        if self.model.norm == "rmsnorm":
            self.call(
                "rmsnorm_backward", dy=dy, x=s.x, gain=gain, rstd=s.stats, dx=dx, dgain=dgain,
                N=self.N, C=self.C,
            )  # fmt: skip
            return dx
        self.call(
            "layernorm_backward", dy=dy, x=s.x, gain=gain, stats=s.stats, dx=dx,
            dgain=dgain, dbias=dbias, N=self.N, C=self.C,
        )  # fmt: skip
        return dx

    # --- q and k: shared heads, norm, rotary positions ----------------------------------------------------------

    def angles(self, position: Tensor | None) -> Tensor | None:
        """The cosines and sines of rotary positions: of each row's `position`, or of 0, 1, 2, …"""
        if self.model.positions != "rotary":
            return None
        table = self.tensor("angles", (self.T, self.D))
        self.call("rotary_table", position=position, angles=table, T=self.T, D=self.D, base=ROTARY_BASE)
        return table

    def prepare_qkv(self, name: str, qkv: Tensor, angles: Tensor | None) -> Prepared:
        """q, k and v as attention takes them: k and v of every head, q and k with norm and rotary applied."""
        normed = rstd = None
        if self.shares_heads():
            x, qkv = qkv, self.rows(name + ".spread", 3 * self.C)
            self.call("kv_heads", x=x, y=qkv, N=self.N, H=self.H, G=self.model.kv_heads, D=self.D, W=x.shape[1])
        if self.model.qk_norm == "on":
            normed, rstd = self.rows(name + ".normed", 3 * self.C), self.tensor(name + ".rstd", (self.N, 2 * self.H))
            self.call("qk_norm", qkv=qkv, y=normed, rstd=rstd, N=self.N, H=self.H, D=self.D, eps=LAYERNORM_EPS)
            qkv = normed
        if angles is not None:
            qkv = self.rotary(name + ".rotary", qkv, angles, inverse=0)
        return Prepared(qkv, normed, rstd)

    def backward_prepare_qkv(self, name: str, s: Prepared, dqkv: Tensor, angles: Tensor | None) -> Tensor:
        if angles is not None:
            dqkv = self.rotary(name + ".rotary", dqkv, angles, inverse=1)
        if self.model.qk_norm == "on":
            dy, dqkv = dqkv, self.rows(name + ".normed", 3 * self.C)
            self.call("qk_norm_backward", dy=dy, y=s.normed, rstd=s.rstd, dqkv=dqkv, N=self.N, H=self.H, D=self.D)
        if self.shares_heads():
            dy, dqkv = dqkv, self.rows(name + ".gathered", self.C + 2 * self.model.kv_width)
            sizes = {"N": self.N, "H": self.H, "G": self.model.kv_heads, "D": self.D, "W": dqkv.shape[1]}
            self.call("kv_heads_backward", dy=dy, dx=dqkv, **sizes)
        return dqkv

    def shares_heads(self) -> bool:
        return self.model.kv_width < self.C

    def rotary(self, name: str, qkv: Tensor, angles: Tensor, inverse: int) -> Tensor:
        y = self.rows(name, 3 * self.C)
        self.call("rotary", qkv=qkv, angles=angles, y=y, N=self.N, T=self.T, H=self.H, D=self.D, inverse=inverse)
        return y

    # --- the activation --------------------------------------------------------------------------------------

    def activate(self, u: Tensor, h: Tensor) -> Tensor:
        """h [N, F] from u [N, F]; a gated activation takes u [N, 2 F]."""
        if self.model.activation == "swiglu":
            self.call("swiglu", gate_up=u, y=h, N=self.N, F=self.F)
        else:
            self.call("activation", x=u, y=h, N=self.N, F=self.F, kind=KINDS[self.model.activation])
        return h

    def backward_activate(self, dh: Tensor, u: Tensor, du: Tensor) -> Tensor:
        if self.model.activation == "swiglu":
            self.call("swiglu_backward", dy=dh, gate_up=u, dgate_up=du, N=self.N, F=self.F)
        else:
            kind = KINDS[self.model.activation]
            self.call("activation_backward", dy=dh, x=u, dx=du, N=self.N, F=self.F, kind=kind)
        return du

    # --- logits ----------------------------------------------------------------------------------------------

    def head(self, x: Tensor, logits: Tensor) -> Tensor:
        """The logits [N, V] of the rows x. Returns them before their cap, which is what the backward pass needs."""
        if not self.model.logit_cap:
            self.linear(x, self.head_name, logits)
            return logits
        uncapped = self.rows(logits.name + ".uncapped", VOCAB)
        self.linear(x, self.head_name, uncapped)
        self.call("softcap", x=uncapped, y=logits, N=self.N, V=VOCAB, cap=self.model.logit_cap)
        return uncapped

    def backward_head(self, dlogits: Tensor, uncapped: Tensor, x: Tensor, dx: Tensor) -> None:
        if self.model.logit_cap:
            dy, dlogits = dlogits, self.rows("dlogits.uncapped", VOCAB)
            self.call("softcap_backward", dy=dy, x=uncapped, dx=dlogits, N=self.N, V=VOCAB, cap=self.model.logit_cap)
        self.backward_linear(dlogits, x, self.head_name, dx)
