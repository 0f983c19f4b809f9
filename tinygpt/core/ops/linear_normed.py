"""A layer norm and the linear map that takes it, in one dispatch of a GPU."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, ceil_div, flag
from tinygpt.core.ops.linear import FEW_ROWS, takes_tiles
from tinygpt.core.ops.linear_tiles import Product, invocations, shared_bytes, tile_constants, tile_files, tile_of
from tinygpt.core.ops.op import Op, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding, Constant

# Numbers in a row: every workgroup norms its rows anew, which costs more than a dispatch where they are longer.
WIDEST = 128


def are_normed(norm: Op, op: Op, target: Target) -> bool:
    """Whether the second op is a linear map of the first, a layer norm, that can make it on its way."""
    if norm.kernel != "layernorm" or op.kernel not in ("linear", "linear_activation"):
        return False
    if op.tensor("x") is not norm.tensor("y") or op.dim("N") < FEW_ROWS or op.dim("I") > WIDEST or target.device.f16:
        return False
    if op.tensor("residual") or (op.kernel == "linear" and (op.dim("accumulate") or op.scalar("scale") != 1.0)):
        return False
    return takes_tiles(op) and op.pitch("y") == op.dim("O") and norm_weights(norm, target) is not None


def norm_weights(norm: Op, target: Target) -> "Tensor | None":
    """Gain and bias in one view, where they lie side by side."""
    gain, bias = norm.tensor("gain"), norm.tensor("bias")
    assert gain is not None
    if bias is None:
        return gain
    apart = bias.start - gain.start
    if gain.root() is not bias.root() or apart <= 0 or apart > 2 * norm.dim("C"):
        return None
    for segment in (target.segments or []) + (target.base_segments or []):
        if gain.root().name in segment.tensors and gain.start < segment.start <= bias.start:
            return None
    return gain.root().view(gain.name + "+bias", (apart + norm.dim("C"),), gain.start)


def normed_linear(norm: Op, op: Op, target: Target) -> list[Dispatch]:
    N, O, I = op.dim("N"), op.dim("O"), op.dim("I")  # noqa: E741
    gain, bias = norm.tensor("gain"), norm.tensor("bias")
    assert gain is not None
    tile = tile_of([Product(N, O, I)], target.device)
    if shared_bytes(tile, 16) + 8 * I + 8 * tile.rows + 4 * invocations(tile) > target.device.max_shared:
        return norm.declared.dispatch(norm, target) + op.declared.dispatch(op, target)
    constants: dict[str, Constant] = {"N": N, "O": O, "I": I, "HAS_BIAS": flag(op.tensor("bias"))}
    constants["EPS"] = norm.scalar("eps")
    constants["NORM_BIAS"] = 0 if bias is None else bias.start - gain.start
    reads = bound(op, "x weight bias") + [("norm_weights", norm_weights(norm, target))]
    reads[0] = ("x", norm.tensor("x"))
    writes: list[Binding] = [("y", op.tensor("y")), ("normed", norm.tensor("y")), ("stats", norm.tensor("stats"))]
    if op.kernel == "linear_activation":
        constants["KIND"] = op.dim("kind")
        constants["HAS_SLOPE"] = flag(op.tensor("slope"))
        writes.append(("slope", op.tensor("slope")))
    constants.update(tile_constants(tile))
    grid = (ceil_div(O, tile.columns), ceil_div(N, tile.rows), 1)
    files = ["activation.wgsl"] + tile_files(target.device) + ["linear_factors.wgsl", "linear_normed.wgsl"]
    return [Dispatch(files, "normed_" + op.kernel, reads, writes, constants, grid)]
