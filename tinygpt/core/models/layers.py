"""The layers of a model, each with its gradient beside it: what they call depends on the model's options.

`d` before a name is the gradient of the loss by it. What a layer leaves for its gradient is a record of its own. The
formulas are beside the kernels' specifications in tinygpt/kernels/*.py.
"""

from collections import namedtuple

from tinygpt.core.config import LAYERNORM_EPS, ROTARY_BASE, VOCAB, RunConfig
from tinygpt.core.models.maps import MappingProgram
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.linear import GELU, RELU2
from tinygpt.core.ops.op import Tensor

# kept: of each row for the backward pass; where no norm stands, y is x and there is no `which`
Normed = namedtuple("Normed", ("which", "x", "y", "kept"))
Queried = namedtuple("Queried", ("qkv", "normed", "rstd"))  # qkv: what attention takes; the others: of qk_norm
Bent = namedtuple("Bent", ("h", "slope", "gate_up"))  # slope: the activation's; gate_up: of a gated one instead
KINDS = {"gelu": GELU, "relu2": RELU2}


class LayeredProgram(MappingProgram):
    def __init__(self, mode: str, config: RunConfig, memory: Memory, B: int, T: int, learns: bool) -> None:
        MappingProgram.__init__(self, mode, config, memory, B, T, learns)
        self.head_name = "token_embedding" if self.model.tied_head == "on" else "lm_head"
        self.C, self.H, self.D, self.F = self.model.d_model, self.model.heads, self.model.head_size, self.model.d_mlp

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

    def backward_input(self, name: str, s: Normed, residual: Tensor) -> Tensor:
        """Where the gradient of a branch's input goes: on top of the residual's, if there is no norm to add that."""
        return self.rows(name, self.C) if s.which else residual

    def backward_norm(self, name: str, dy: Tensor, s: Normed, residual: Tensor | None, accumulate: int) -> Tensor:
        """The gradient through the norm (+ residual)."""
        if not s.which:
            return dy
        dx, gain = self.rows(name, self.C), self.weight[s.which + ".weight"]
        dgain, dbias = self.memory.grad.get(s.which + ".weight"), self.memory.grad.get(s.which + ".bias")
        if self.model.norm == "rmsnorm":
            self.call(
                "rmsnorm_backward", dy=dy, x=s.x, gain=gain, rstd=s.kept, dresidual=residual, dx=dx, dgain=dgain,
                N=self.N, C=self.C, accumulate=accumulate,
            )  # fmt: skip
            return dx
        self.call(
            "layernorm_backward", dy=dy, x=s.x, gain=gain, stats=s.kept, dresidual=residual, dx=dx,
            dgain=dgain, dbias=dbias, N=self.N, C=self.C, accumulate=accumulate,
        )  # fmt: skip
        return dx

    # --- what lies between the projection to q, k and v and the attention ------------------------------------

    def turns(self) -> Tensor | None:
        """The angles of rotary positions, made anew in every run: they are few."""
        if self.model.positions != "rotary":
            return None
        table = self.tensor("turns", (self.T, self.D))
        self.call("rotary_table", position=self.position(), turns=table, T=self.T, D=self.D, base=ROTARY_BASE)
        return table

    def position(self) -> Tensor | None:
        """Of each row, where they are not 0, 1, 2, …"""
        return None

    def queries(self, name: str, qkv: Tensor, turns: Tensor | None) -> Queried:
        normed = rstd = None
        if self.shares_heads():
            x, qkv = qkv, self.rows(name + ".spread", 3 * self.C)
            self.call("kv_heads", x=x, y=qkv, N=self.N, H=self.H, G=self.model.kv_heads, D=self.D, W=x.shape[1])
        if self.model.qk_norm == "on":
            normed, rstd = self.rows(name + ".normed", 3 * self.C), self.tensor(name + ".rstd", (self.N, 2 * self.H))
            self.call("qk_norm", qkv=qkv, y=normed, rstd=rstd, N=self.N, H=self.H, D=self.D, eps=LAYERNORM_EPS)
            qkv = normed
        if turns is not None:
            qkv = self.turned(name + ".turned", qkv, turns, inverse=0)
        return Queried(qkv, normed, rstd)

    def shares_heads(self) -> bool:
        return self.model.kv_width < self.C

    def backward_queries(self, name: str, s: Queried, dqkv: Tensor, turns: Tensor | None) -> Tensor:
        if turns is not None:
            dqkv = self.turned(name + ".turned", dqkv, turns, inverse=1)
        if self.model.qk_norm == "on":
            dy, dqkv = dqkv, self.rows(name + ".normed", 3 * self.C)
            self.call("qk_norm_backward", dy=dy, y=s.normed, rstd=s.rstd, dqkv=dqkv, N=self.N, H=self.H, D=self.D)
        if self.shares_heads():
            dy, dqkv = dqkv, self.rows(name + ".gathered", self.C + 2 * self.model.kv_width)
            sizes = {"N": self.N, "H": self.H, "G": self.model.kv_heads, "D": self.D, "W": dqkv.shape[1]}
            self.call("kv_heads_backward", dy=dy, dx=dqkv, **sizes)
        return dqkv

    def turned(self, name: str, qkv: Tensor, turns: Tensor, inverse: int) -> Tensor:
        y = self.rows(name, 3 * self.C)
        self.call("rotary", qkv=qkv, turns=turns, y=y, N=self.N, T=self.T, H=self.H, D=self.D, inverse=inverse)
        return y

    # --- the MLP's wide half ---------------------------------------------------------------------------------

    def bend(self, block: str, x: Tensor) -> Bent:
        """To F numbers per row, each bent by the activation."""
        if self.model.activation == "swiglu":
            gate_up = self.rows(block + "gate_up", 2 * self.F)
            self.linear(x, block + "mlp.fc_in", gate_up)
            h = self.rows(block + "h", self.F)
            self.call("swiglu", gate_up=gate_up, y=h, N=self.N, F=self.F)
            return Bent(h, None, gate_up)
        h = self.rows(block + "h", self.F)
        slope = self.rows(block + "slope", self.F) if self.learns else None
        which, added = block + "mlp.fc_in", None
        if self.adapted(which):
            added = self.rows(block + "h.adapted", self.F)
            self.adapt(x, which, added, accumulate=0)
        weight, bias = self.weight[which + ".weight"], self.weight.get(which + ".bias")
        self.call(
            "linear_activation", x=x, weight=weight, bias=bias, residual=added, y=h, slope=slope, N=self.N, O=self.F,
            I=self.C, kind=KINDS[self.model.activation],
        )  # fmt: skip
        return Bent(h, slope, None)

    def backward_bend(
        self, block: str, s: Bent, dh: Tensor, x: Tensor, dx: Tensor, accumulate: int, on_top: int
    ) -> None:
        """`dh` has the slope in it already, where there is one."""
        if s.gate_up is not None:
            dy, dh = dh, self.rows(block + "dgate_up", 2 * self.F)
            self.call("swiglu_backward", dy=dy, gate_up=s.gate_up, dgate_up=dh, N=self.N, F=self.F)
        self.backward_linear(dh, x, block + "mlp.fc_in", dx, accumulate, on_top=on_top)

    # --- logits ----------------------------------------------------------------------------------------------

    def head(self, x: Tensor, logits: Tensor) -> Tensor:
        """What the cap was put on; without one, the logits themselves."""
        if not self.model.logit_cap:
            self.linear(x, self.head_name, logits)
            return logits
        uncapped = self.rows(logits.name + ".uncapped", VOCAB)
        self.linear(x, self.head_name, uncapped)
        self.call("softcap", x=uncapped, y=logits, N=self.N, V=VOCAB, cap=self.model.logit_cap)
        return uncapped

    def backward_head(self, dlogits: Tensor, uncapped: Tensor, x: Tensor, dx: Tensor, accumulate: int) -> None:
        if self.model.logit_cap:
            dy, dlogits = dlogits, self.rows("dlogits.uncapped", VOCAB)
            self.call("softcap_backward", dy=dy, x=uncapped, dx=dlogits, N=self.N, V=VOCAB, cap=self.model.logit_cap)
        self.backward_linear(dlogits, x, self.head_name, dx, accumulate)

    # --- dropout ---------------------------------------------------------------------------------------------

    def drops(self) -> bool:
        return self.learns and self.train.dropout > 0

    def drop(self, x: Tensor, site: int, name: str, residual: Tensor | None = None) -> Tensor:
        """`x`, or where numbers are dropped the rest of them, (+ residual) under a name. Its own gradient, too."""
        if not self.drops():
            return x
        y = self.rows(name, self.C)
        self.call(
            "dropout", x=x, counters=self.memory.counters, residual=residual, y=y, N=self.N, C=self.C,
            seed=self.train.seed, site=site, rate=self.train.dropout,
        )  # fmt: skip
        return y

    def branch(self, x: Tensor, which: str, residual: Tensor, name: str, site: int) -> Tensor:
        """A branch's end: residual + its linear map, dropped."""
        if self.drops():
            whole = self.rows(name + ".whole", self.C)
            self.linear(x, which, whole)
            return self.drop(whole, site, name, residual)
        y = self.rows(name, self.C)
        self.linear(x, which, y, residual)
        return y

    def backward_branch(
        self, dy: Tensor, x: Tensor, which: str, dx: Tensor, accumulate: int, site: int, slope: Tensor | None = None
    ) -> None:
        """Without the residual's share of dy, which is dy itself."""
        dwhole = self.drop(dy, site, f"{which}.dwhole")
        self.backward_linear(dwhole, x, which, dx, accumulate, slope)
