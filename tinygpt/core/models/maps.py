"""Linear maps, each with its gradient beside it: trained, or frozen with adapters (LoRA) on some of them.

An adapter's share is (x A^T) B^T alpha / rank, A [R, I], B [O, R]. q, k and v are columns of one map's output, and so
are the halves of a gated MLP: an adapter of one of them adds to its columns.
"""

from collections import namedtuple

from tinygpt.core.models.adapters import LORA_A, LORA_B, WEIGHT
from tinygpt.core.models.model import ModelProgram
from tinygpt.core.ops.op import Tensor

# start, width: its columns of the output
Adapted = namedtuple("Adapted", ("name", "start", "width"))


class MappingProgram(ModelProgram):
    def linear(self, x: Tensor, which: str, y: Tensor, residual: Tensor | None = None) -> None:
        weight, bias = self.weight[which + WEIGHT], self.weight.get(which + ".bias")
        O, I = weight.shape  # noqa: E741
        self.call("linear", x=x, weight=weight, bias=bias, residual=residual, y=y, N=self.N, O=O, I=I)
        self.adapt(x, which, y, accumulate=1)

    def backward_linear(
        self,
        dy: Tensor,
        x: Tensor,
        which: str,
        dx: Tensor,
        accumulate: int,
        slope: Tensor | None = None,
        on_top: int = 0,
    ) -> None:
        """dx = dy W (* slope), or with `on_top` added to it, dW (+)= dy^T x, db (+)= column sums of dy."""
        weight = self.weight[which + WEIGHT]
        dweight, dbias = self.memory.grad.get(which + WEIGHT), self.memory.grad.get(which + ".bias")
        O, I = weight.shape  # noqa: E741
        self.call(
            "linear_backward_input", dy=dy, weight=weight, slope=slope, dx=dx, N=self.N, O=O, I=I, accumulate=on_top
        )
        if dweight is not None:
            self.call(
                "linear_backward_weight", dy=dy, x=x, dweight=dweight, dbias=dbias, N=self.N, O=O, I=I,
                accumulate=accumulate,
            )  # fmt: skip
        self.backward_adapt(dy, x, which, dx, accumulate, slope)

    # --- adapters --------------------------------------------------------------------------------------------

    def adapted(self, which: str) -> list[Adapted]:
        """Of a map: the projections in it that have an adapter."""
        frozen = self.memory.base_layout
        found, start = [], 0
        for member in [] if frozen is None else frozen.members[which + WEIGHT]:
            name, width = member.name[: -len(WEIGHT)], member.shape[0]
            if name + LORA_A in self.weight:
                found.append(Adapted(name, start, width))
            start += width
        return found

    def adapt(self, x: Tensor, which: str, y: Tensor, accumulate: int) -> None:
        """low = scale x A^T [N, R];  y[:, columns] (+)= low B^T."""
        for one in self.adapted(which):
            A, B = self.weight[one.name + LORA_A], self.weight[one.name + LORA_B]
            R, I = A.shape  # noqa: E741
            low = self.low[one.name] = self.rows(one.name + ".low", R)
            self.call("linear", x=x, weight=A, y=low, N=self.N, O=R, I=I, scale=self.scale)
            part = columns_of(y, one)
            self.call("linear", x=low, weight=B, y=part, N=self.N, O=one.width, I=R, accumulate=accumulate)

    def backward_adapt(
        self, dy: Tensor, x: Tensor, which: str, dx: Tensor, accumulate: int, slope: Tensor | None
    ) -> None:
        """dlow = scale dy[:, columns] B, dB (+)= dy[:, columns]^T low;  dx += dlow A (* slope), dA (+)= dlow^T x."""
        grad = self.memory.grad
        for one in self.adapted(which):
            A, B = self.weight[one.name + LORA_A], self.weight[one.name + LORA_B]
            dA, dB, low = grad[one.name + LORA_A], grad[one.name + LORA_B], self.low[one.name]
            R, I = A.shape  # noqa: E741
            part, dlow = columns_of(dy, one), self.rows(one.name + ".dlow", R)
            sizes, turned = {"N": self.N, "O": one.width, "I": R}, {"N": self.N, "O": R, "I": I}
            self.call("linear_backward_input", dy=part, weight=B, dx=dlow, scale=self.scale, **sizes)
            self.call("linear_backward_weight", dy=part, x=low, dweight=dB, accumulate=accumulate, **sizes)
            self.call("linear_backward_input", dy=dlow, weight=A, slope=slope, dx=dx, accumulate=1, **turned)
            self.call("linear_backward_weight", dy=dlow, x=x, dweight=dA, accumulate=accumulate, **turned)


def columns_of(y: Tensor, one: Adapted) -> Tensor:
    return y if y.shape[1] == one.width else y.columns(one.start, one.width)
