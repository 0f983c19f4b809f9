"""Linear maps and their gradients.

On a GPU linear.wgsl and linear_backward.wgsl do the work wherever widths are multiples of 4, and so the pitch and the
offset of a slice of columns; linear_row.wgsl that of a few rows, linear_any.wgsl the rest.
"""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, ceil_div, flag, line_grid, reduce_files, strides
from tinygpt.core.ops.linear_tiles import Product, tile_constants, tile_files, tile_of
from tinygpt.core.ops.op import Op, declare, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding, Constant

SLICED = ["width_1.wgsl", "slices.wgsl"]
ANY_FILES = SLICED + ["activation.wgsl", "linear_any.wgsl"]
ANY_TILE = 16  # of linear_any.wgsl
ROW_LANES = 32  # of linear_row.wgsl, whose workgroups have 256 invocations
ROW_OUTPUTS = 256 // ROW_LANES

# So many are not few. Of fewer, each row's sums are those that it has alone: a CPU does not pack the weights for them,
# and a GPU takes linear_row.wgsl.
FEW_ROWS = shared("FEW_ROWS", 16)

# Kinds of activation.
GELU = shared("GELU", 0)  # the exact one
RELU2 = shared("RELU2", 1)  # max(h, 0)^2


def takes_tiles(op: Op) -> bool:
    """Whether the blocked kernels, which go by vectors of four, can do it."""
    apart = [op.pitch(name) % 4 or op.offset(name) % 4 for name in op.declared.apart]
    return op.dim("O") % 4 == 0 and op.dim("I") % 4 == 0 and not any(apart)


# --- forward ---------------------------------------------------------------------------------------------


def linear(op: Op, target: Target) -> list[Dispatch]:
    flags: dict[str, Constant] = {"HAS_BIAS": flag(op.tensor("bias")), "HAS_RESIDUAL": flag(op.tensor("residual"))}
    flags["ACCUMULATE"] = op.dim("accumulate")
    flags["SCALE"] = op.scalar("scale")
    flags.update(strides(op, "y"))
    reads, writes = bound(op, "x weight bias residual"), bound(op, "y")
    return forward(op, "linear", reads, writes, flags, target)


def linear_activation(op: Op, target: Target) -> list[Dispatch]:
    writes: list[Binding] = [("activation", op.tensor("y")), ("slope", op.tensor("slope"))]
    flags: dict[str, Constant] = {"HAS_BIAS": flag(op.tensor("bias")), "HAS_SLOPE": flag(op.tensor("slope"))}
    flags["HAS_RESIDUAL"] = flag(op.tensor("residual"))
    flags["KIND"] = op.dim("kind")
    return forward(op, "linear_activation", bound(op, "x weight bias residual"), writes, flags, target)


def forward(
    op: Op, entry: str, reads: "list[Binding]", writes: "list[Binding]", flags: "dict[str, Constant]", target: Target
) -> list[Dispatch]:
    device = target.device
    N, O, I = op.dim("N"), op.dim("O"), op.dim("I")  # noqa: E741
    if N >= FEW_ROWS and not takes_tiles(op):
        sizes: dict[str, Constant] = {"ROWS": N, "COLUMNS": O, "DEPTH": I}
        sizes.update(flags)
        return [Dispatch(ANY_FILES, entry, reads, writes, sizes, any_grid(N, O, 1))]
    constants: dict[str, Constant] = {"N": N, "O": O, "I": I}
    constants.update(flags)
    if N < FEW_ROWS:
        constants["LANES"] = ROW_LANES
        grid = line_grid(N * ceil_div(O, ROW_OUTPUTS), device)
        files = reduce_files(device) + ["activation.wgsl", "linear_row.wgsl"]
        return [Dispatch(files, entry, reads, writes, constants, grid)]
    tile = tile_of([Product(N, O, I)], device)
    constants.update(tile_constants(tile))
    grid = (ceil_div(O, tile.columns), ceil_div(N, tile.rows), 1)
    files = ["activation.wgsl"] + tile_files(device) + ["linear_factors.wgsl", "linear.wgsl"]
    return [Dispatch(files, entry, reads, writes, constants, grid)]


def any_grid(rows: int, columns: int, parts: int) -> tuple[int, int, int]:
    return (ceil_div(columns, ANY_TILE), ceil_div(rows, ANY_TILE), parts)


# --- backward --------------------------------------------------------------------------------------------


def linear_backward_input(op: Op, target: Target) -> list[Dispatch]:
    if takes_tiles(op):
        return backward(op, None, target)
    reads: list[Binding] = [
        ("dy", op.tensor("dy")),
        ("weight_rows", op.tensor("weight")),
        ("kept_slope", op.tensor("slope")),
    ]
    constants: dict[str, Constant] = {"ROWS": op.dim("N"), "COLUMNS": op.dim("I"), "DEPTH": op.dim("O")}
    constants["HAS_SLOPE"] = flag(op.tensor("slope"))
    constants["ACCUMULATE"] = op.dim("accumulate")
    constants["SCALE"] = op.scalar("scale")
    constants.update(strides(op, "dy"))
    grid = any_grid(op.dim("N"), op.dim("I"), 1)
    return [Dispatch(ANY_FILES, "linear_backward_input", reads, bound(op, "dx"), constants, grid)]


def linear_backward_weight(op: Op, target: Target) -> list[Dispatch]:
    if takes_tiles(op):
        return backward(None, op, target)
    reads: list[Binding] = [("dy_rows", op.tensor("dy")), ("x_rows", op.tensor("x"))]
    constants: dict[str, Constant] = {"ROWS": op.dim("O"), "COLUMNS": op.dim("I"), "DEPTH": op.dim("N")}
    constants["HAS_BIAS"] = flag(op.tensor("dbias"))
    constants["ACCUMULATE"] = op.dim("accumulate")
    constants["SLICES"] = target.slices
    constants.update(strides(op, "dy"))
    grid = any_grid(op.dim("O"), op.dim("I"), target.slices)
    return [Dispatch(ANY_FILES, "linear_backward_weight", reads, bound(op, "dweight dbias"), constants, grid)]


def are_pair(first: Op, second: Op) -> bool:
    """Whether two ops are the two gradients of one linear map, which one dispatch can make."""
    if first.kernel != "linear_backward_input" or second.kernel != "linear_backward_weight":
        return False
    return first.tensor("dy") is second.tensor("dy") and takes_tiles(first)


def backward(of_input: Op | None, of_weight: Op | None, target: Target) -> list[Dispatch]:
    """One dispatch for the gradient by the input, by the weight, or by both."""
    op, device, slices = of_input or of_weight, target.device, target.slices
    assert op is not None
    N, O, I = op.dim("N"), op.dim("O"), op.dim("I")  # noqa: E741
    by_input, by_weight = Product(N, I, O), Product(O, I, ceil_div(N, slices), slices)
    products = ([by_input] if of_input else []) + ([by_weight] if of_weight else [])
    tile = tile_of(products, device, True)
    input_tiles = by_input.tiles(tile) if of_input else 0
    weight_tiles = by_weight.tiles(tile) if of_weight else 0
    slope = of_input.tensor("slope") if of_input else None
    dbias = of_weight.tensor("dbias") if of_weight else None
    constants: dict[str, Constant] = {"N": N, "O": O, "I": I, "SLICES": slices}
    constants["INPUT_TILES"] = input_tiles
    constants["WEIGHT_TILES"] = weight_tiles
    constants["WEIGHTS_FIRST"] = int(by_weight.depth > by_input.depth)
    constants["HAS_SLOPE"] = flag(slope)
    constants["HAS_BIAS"] = flag(dbias)
    constants["ACCUMULATE"] = of_weight.dim("accumulate") if of_weight else 0
    constants["ACCUMULATE_DX"] = of_input.dim("accumulate") if of_input else 0
    constants["SCALE"] = of_input.scalar("scale") if of_input else 1.0
    constants.update(strides(op, "dy"))
    if device.f16:
        constants["LOSS_SCALE"] = float(loss_scale(N))
    constants.update(tile_constants(tile))
    reads: list[Binding] = [
        ("dy", op.tensor("dy")),
        ("weight", of_input.tensor("weight") if of_input else None),
        ("slope", slope),
        ("x", of_weight.tensor("x") if of_weight else None),
    ]
    writes: list[Binding] = [
        ("dx", of_input.tensor("dx") if of_input else None),
        ("dweight", of_weight.tensor("dweight") if of_weight else None),
        ("dbias", dbias),
    ]
    grid = line_grid(input_tiles + weight_tiles, device)
    files = SLICED + tile_files(device) + ["linear_backward.wgsl"]
    return [Dispatch(files, "linear_backward", reads, writes, constants, grid)]


def loss_scale(rows: int) -> int:
    """The largest power of two up to `rows`, by which the loss's mean has divided every row's gradient."""
    scale = 1
    while 2 * scale <= rows:
        scale *= 2
    return scale


# --- what it costs a CPU ---------------------------------------------------------------------------------

# The columns of packed weights are padded to a multiple of a panel, which has at most so many.
WIDEST_PANEL = shared("WIDEST_PANEL", 64)


def matmul_flops(op: Op) -> int:
    return 2 * op.dim("N") * op.dim("O") * op.dim("I")


def packed_weights(op: Op) -> int:
    return op.dim("I") * ceil_div(op.dim("O"), WIDEST_PANEL) * WIDEST_PANEL


# y[N,O] (+)= scale x[N,I] weight[O,I]^T (+ bias) (+ residual)
declare(
    "linear",
    "x weight bias? residual? -> y+ | N O I accumulate=0 | scale=1",
    "x=N,I weight=O,I bias=O residual=N,O y=N/O",
    linear,
    flops=matmul_flops,
    scratch=packed_weights,
)
# h = x weight^T (+ bias) (+ residual);  y = f(h) with f of that `kind`;  slope = f'(h), kept for the backward pass
declare(
    "linear_activation",
    "x weight bias? residual? -> y slope? | N O I kind",
    "x=N,I weight=O,I bias=O residual=N,O y=N,O slope=N,O",
    linear_activation,
    flops=matmul_flops,
    scratch=packed_weights,
)
# dx[N,I] (+)= scale dy[N,O] weight[O,I] (* slope)
declare(
    "linear_backward_input",
    "dy weight slope? -> dx+ | N O I accumulate=0 | scale=1",
    "dy=N/O weight=O,I slope=N,I dx=N,I",
    linear_backward_input,
    flops=matmul_flops,
)
# dweight[O,I] (+)= dy^T x;  dbias[O] (+)= sum over rows of dy
declare(
    "linear_backward_weight",
    "dy x -> dweight+ dbias?+ | N O I accumulate=0",
    "dy=N/O x=N,I dweight=O,I dbias=O",
    linear_backward_weight,
    flops=matmul_flops,
)
