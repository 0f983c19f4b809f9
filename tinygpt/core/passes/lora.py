"""Adapters (LoRA) beside linear maps, of which all but the adapters is frozen.

    y = linear(x, W)                 y = linear(x, W);  low = scale x A^T;  y += low B^T
    dx = linear_backward_input(dy, W)      the same
    dW = linear_backward_weight(dy, x)     dlow = scale dy B;  dB = dy^T low;  dx += dlow A;  dA = dlow^T x
    any gradient of what is frozen         nothing

A [R, I], B [O, R], scale = alpha / R.
"""

from tinygpt.core.config import LoraConfig
from tinygpt.core.models.adapters import LORA_A, LORA_B
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.passes.rewrite import map_of, rewritten, tensor_of, with_tensors


def lora(program: Program, config: LoraConfig, memory: Memory, learns: bool) -> Program:
    weights = memory.live_weight if learns else memory.weight
    lows: dict[str, Tensor] = {}  # by adapter, for its gradient
    dxs: dict[str, Tensor] = {}  # by map, the gradient of its input

    def forward(made: Program, op: Op, which: str) -> None:
        A, B = weights[which + LORA_A], weights[which + LORA_B]
        N, (R, I), O = op.dim("N"), A.shape, B.shape[0]  # noqa: E741
        low = lows[which] = made.tensor(which + ".low", (N, R))
        made.call("linear", x=op.tensor("x"), weight=A, y=low, N=N, O=R, I=I, scale=config.scale)
        made.call("linear", x=low, weight=B, y=op.tensor("y"), N=N, O=O, I=R, accumulate=1)

    def backward(made: Program, op: Op, which: str) -> None:
        A, B = weights[which + LORA_A], weights[which + LORA_B]
        N, (R, I), O = op.dim("N"), A.shape, B.shape[0]  # noqa: E741
        dA, dB, low = memory.grad[which + LORA_A], memory.grad[which + LORA_B], lows[which]
        dy, x, dlow, dx = op.tensor("dy"), op.tensor("x"), made.tensor(which + ".dlow", (N, R)), dxs[which]
        made.call("linear_backward_input", dy=dy, weight=B, dx=dlow, scale=config.scale, N=N, O=O, I=R)
        made.call("linear_backward_weight", dy=dy, x=low, dweight=dB, N=N, O=O, I=R)
        made.call("linear_backward_input", dy=dlow, weight=A, dx=dx, accumulate=1, N=N, O=R, I=I)
        made.call("linear_backward_weight", dy=dlow, x=x, dweight=dA, N=N, O=R, I=I)

    def change(made: Program, op: Op) -> None:
        which = map_of(op)
        is_adapted = which + LORA_A in weights
        if op.kernel == "linear_backward_weight":
            if is_adapted:
                backward(made, op, which)
            return
        if op.kernel == "linear_backward_input":
            dxs[which] = tensor_of(op, "dx")
        op = without_frozen(op)
        if op.writes():
            made.ops.append(op)
        if op.kernel == "linear" and is_adapted:
            forward(made, op, which)

    return rewritten(program, change)


def without_frozen(op: Op) -> Op:
    """The op without the gradients of what is frozen."""
    frozen = [name for name in op.declared.outputs if is_frozen(op.tensor(name))]
    return with_tensors(op, **dict.fromkeys(frozen)) if frozen else op


def is_frozen(tensor: "Tensor | None") -> bool:
    return tensor is not None and tensor.kind == "frozen"
