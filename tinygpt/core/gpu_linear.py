"""Dispatches of the linear maps: which kernel, which tiles.

linear.wgsl and linear_backward.wgsl do the work wherever widths are multiples of 4, linear_row.wgsl that of a single
row, linear_any.wgsl the rest.
"""

from collections import namedtuple

from tinygpt.core.gpu_dispatch import Device, Dispatch, bound, ceil_div, flag, line_grid, reduce_files
from tinygpt.core.ops import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.gpu_dispatch import Binding, Constant

# A workgroup's part of the product, the depth it takes at a time, the blocks of 4×4 an invocation computes of it, and
# the teams that share the depth. A processor that has n such tiles to do needs start + cost * n for each of their sums.
Tile = namedtuple("Tile", ("rows", "columns", "depth", "block_rows", "block_columns", "splits", "start", "cost"))

# Fitted to what the kernels of whole steps took on an H200. A large tile reads less for each sum; small ones share the
# work out more evenly, and teams hide the wait for memory where a processor has little else to do.
TILES = (
    Tile(128, 128, 8, 2, 2, 1, 0.95, 0.45),
    Tile(64, 64, 8, 2, 1, 1, 1.05, 0.765),
    Tile(64, 64, 16, 1, 1, 1, 0.1, 1.28),
    Tile(32, 32, 32, 1, 1, 2, 0.5, 1.9),
    Tile(32, 32, 32, 1, 1, 4, 0.1, 2.2),
    Tile(32, 32, 16, 1, 1, 1, 3.5, 1.5),
)
SLICED = ["width_1.wgsl", "slices.wgsl"]
ANY_FILES = SLICED + ["gelu.wgsl", "linear_any.wgsl"]
ANY_TILE = 16  # of linear_any.wgsl
ROW_LANES = 32  # of linear_row.wgsl, whose workgroups have 256 invocations
ROW_OUTPUTS = 256 // ROW_LANES


def invocations(tile: Tile) -> int:
    return int(tile.splits * (tile.rows // 4 // tile.block_rows) * (tile.columns // 4 // tile.block_columns))


def shared_bytes(tile: Tile, quad: int) -> int:
    """Two slabs of each factor, a quad of padding a row, and the teams' sums; a quad has 16 bytes, or 8 in float16."""
    tiles = 2 * tile.depth * (tile.rows // 4 + tile.columns // 4 + 2) * quad
    return int(tiles + max(16, 4 * (tile.splits - 1) * tile.rows * tile.columns))


class Product:
    """A product [rows, columns] whose sums have `depth` terms; `parts` of them are made apart."""

    def __init__(self, rows: int, columns: int, depth: int, parts: int = 1) -> None:
        self.rows = rows
        self.columns = columns
        self.depth = depth
        self.parts = parts

    def tiles(self, tile: Tile) -> int:
        return ceil_div(self.rows, tile.rows) * ceil_div(self.columns, tile.columns) * self.parts


def tile_of(products: list[Product], device: Device) -> Tile:
    """Of the tiles that the device runs, the one with which its busiest processor is done first with all products."""
    deepest = max([product.depth for product in products])
    best, least = TILES[-1], 0.0
    for tile in TILES:
        if invocations(tile) > device.max_invocations or shared_bytes(tile, 16) > device.max_shared:
            continue
        tiles = sum([product.tiles(tile) for product in products])
        mean_depth = sum([product.tiles(tile) * product.depth for product in products]) / tiles
        busiest = max(deepest, ceil_div(tiles, device.processors) * mean_depth)
        time = tile.rows * tile.columns * (tile.start * deepest + tile.cost * busiest)
        if not least or time < least:
            best, least = tile, time
    return best


def tile_constants(tile: Tile) -> "dict[str, Constant]":
    return {
        "TILE_ROWS": tile.rows,
        "TILE_COLUMNS": tile.columns,
        "TILE_DEPTH": tile.depth,
        "BLOCK_ROWS": tile.block_rows,
        "BLOCK_COLUMNS": tile.block_columns,
        "SPLITS": tile.splits,
        "INVOCATIONS": invocations(tile),
    }


def tile_files(device: Device) -> list[str]:
    return ["tile_f16.wgsl" if device.f16 else "tile_f32.wgsl", "linear_tile.wgsl"]


def takes_tiles(op: Op) -> bool:
    """Whether the blocked kernels, which go by vectors of four, can do it."""
    return op.dim("O") % 4 == 0 and op.dim("I") % 4 == 0


# --- forward ---------------------------------------------------------------------------------------------


def linear(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    flags: dict[str, Constant] = {"HAS_BIAS": flag(op.tensor("bias")), "HAS_RESIDUAL": flag(op.tensor("residual"))}
    reads, writes = bound(op, "x weight bias residual"), bound(op, "y")
    return forward(op, "linear", reads, writes, flags, device)


def linear_gelu(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    writes: list[Binding] = [("activation", op.tensor("y")), ("slope", op.tensor("slope"))]
    return forward(
        op, "linear_gelu", bound(op, "x weight bias"), writes, {"HAS_SLOPE": flag(op.tensor("slope"))}, device
    )


def forward(
    op: Op, entry: str, reads: "list[Binding]", writes: "list[Binding]", flags: "dict[str, Constant]", device: Device
) -> list[Dispatch]:
    N, O, I = op.dim("N"), op.dim("O"), op.dim("I")  # noqa: E741
    if N > 1 and not takes_tiles(op):
        sizes: dict[str, Constant] = {"ROWS": N, "COLUMNS": O, "DEPTH": I}
        sizes.update(flags)
        return [Dispatch(ANY_FILES, entry, reads, writes, sizes, any_grid(N, O, 1))]
    constants: dict[str, Constant] = {"O": O, "I": I}
    constants.update(flags)
    if N == 1:
        constants["LANES"] = ROW_LANES
        grid = line_grid(ceil_div(O, ROW_OUTPUTS), device)
        return [
            Dispatch(reduce_files(device) + ["gelu.wgsl", "linear_row.wgsl"], entry, reads, writes, constants, grid)
        ]
    tile = tile_of([Product(N, O, I)], device)
    constants["N"] = N
    constants.update(tile_constants(tile))
    grid = (ceil_div(O, tile.columns), ceil_div(N, tile.rows), 1)
    return [Dispatch(tile_files(device) + ["gelu.wgsl", "linear.wgsl"], entry, reads, writes, constants, grid)]


def any_grid(rows: int, columns: int, parts: int) -> tuple[int, int, int]:
    return (ceil_div(columns, ANY_TILE), ceil_div(rows, ANY_TILE), parts)


# --- backward --------------------------------------------------------------------------------------------


def linear_backward_input(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    if takes_tiles(op):
        return backward(op, None, device, slices)
    reads: list[Binding] = [
        ("dy", op.tensor("dy")),
        ("weight_rows", op.tensor("weight")),
        ("kept_slope", op.tensor("slope")),
    ]
    constants: dict[str, Constant] = {"ROWS": op.dim("N"), "COLUMNS": op.dim("I"), "DEPTH": op.dim("O")}
    constants["HAS_SLOPE"] = flag(op.tensor("slope"))
    grid = any_grid(op.dim("N"), op.dim("I"), 1)
    return [Dispatch(ANY_FILES, "linear_backward_input", reads, bound(op, "dx"), constants, grid)]


def linear_backward_weight(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    if takes_tiles(op):
        return backward(None, op, device, slices)
    reads: list[Binding] = [("dy_rows", op.tensor("dy")), ("x_rows", op.tensor("x"))]
    constants: dict[str, Constant] = {"ROWS": op.dim("O"), "COLUMNS": op.dim("I"), "DEPTH": op.dim("N")}
    constants["HAS_BIAS"] = flag(op.tensor("dbias"))
    constants["ACCUMULATE"] = op.dim("accumulate")
    constants["SLICES"] = slices
    grid = any_grid(op.dim("O"), op.dim("I"), slices)
    return [Dispatch(ANY_FILES, "linear_backward_weight", reads, bound(op, "dweight dbias"), constants, grid)]


def are_pair(first: Op, second: Op) -> bool:
    """Whether two ops are the two gradients of one linear map, which one dispatch can make."""
    if first.kernel != "linear_backward_input" or second.kernel != "linear_backward_weight":
        return False
    return first.tensor("dy") is second.tensor("dy") and takes_tiles(first)


def backward(of_input: Op | None, of_weight: Op | None, device: Device, slices: int) -> list[Dispatch]:
    """One dispatch for the gradient by the input, by the weight, or by both."""
    op = of_input or of_weight
    assert op is not None
    N, O, I = op.dim("N"), op.dim("O"), op.dim("I")  # noqa: E741
    by_input, by_weight = Product(N, I, O), Product(O, I, ceil_div(N, slices), slices)
    products = ([by_input] if of_input else []) + ([by_weight] if of_weight else [])
    tile = tile_of(products, device)
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
    if device.f16:
        constants["SCALE"] = float(loss_scale(N))
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


LINEAR_KERNELS = {
    "linear": linear,
    "linear_gelu": linear_gelu,
    "linear_backward_input": linear_backward_input,
    "linear_backward_weight": linear_backward_weight,
}
