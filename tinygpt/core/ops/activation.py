"""What stands between an MLP's two linear maps. On a GPU F is a multiple of 4, as it is in every model."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid
from tinygpt.core.ops.op import Op, declare

FILES = ["activation.wgsl", "activate.wgsl"]


def activation(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "x", "y", target)


def activation_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch(op, "x dy", "dx", target)


def dispatch(op: Op, reads: str, writes: str, target: Target) -> list[Dispatch]:
    grid = flat_grid(op.dim("N") * op.dim("F") // 4, target.device)
    return [Dispatch(FILES, op.kernel, bound(op, reads), bound(op, writes), dims(op, "N F kind"), grid)]


# y = f(x), f of that kind: GELU or RELU2 (core/ops/linear.py)
declare("activation", "x -> y | N F kind", "x=N,F y=N,F", activation)
# dx = dy f'(x)
declare("activation_backward", "dy x -> dx | N F kind", "dy=N,F x=N,F dx=N,F", activation_backward)
