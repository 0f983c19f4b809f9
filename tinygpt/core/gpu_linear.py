"""Dispatches of the linear maps: which kernel, which tiles.

linear.wgsl does the work wherever widths are multiples of 4, linear_row.wgsl a single row, linear_any.wgsl the rest.
"""

from collections import namedtuple

from tinygpt.core.gpu_dispatch import Device, Dispatch, ceil_div, line_grid
from tinygpt.core.ops import Op, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.gpu_dispatch import Binding, Constant

# A workgroup's part of the product, the depth it takes at a time, and the blocks of 4×4 an invocation computes of it;
# then what a sum costs in it, and how many such tiles' time a processor loses while it waits for its first.
Tile = namedtuple("Tile", ("rows", "columns", "depth", "block_rows", "block_columns", "cost", "start"))

# Measured on an H200, where the first reaches 39 TFLOP/s. A larger tile reads less for each sum, a smaller one shares
# the work out more evenly.
TILES = (
    Tile(128, 128, 8, 2, 2, 1.0, 0.15),
    Tile(64, 64, 8, 2, 1, 1.12, 0.25),
    Tile(64, 64, 16, 1, 1, 1.2, 0.05),
    Tile(32, 32, 16, 1, 1, 1.45, 0.0),
)
ANY_TILE = 16  # of linear_any.wgsl
ROW_LANES = 32  # of linear_row.wgsl, whose workgroups have 256 invocations
ROW_OUTPUTS = 256 // ROW_LANES


def invocations(tile: Tile) -> int:
    return int(tile.rows // 4 // tile.block_rows * (tile.columns // 4 // tile.block_columns))


def shared_bytes(tile: Tile, quad: int) -> int:
    """Two slabs of each factor, a quad of padding a row; a quad has 16 bytes, or 8 in float16."""
    return int(2 * tile.depth * (tile.rows // 4 + tile.columns // 4 + 2) * quad)


def tile_of(rows: int, columns: int, parts: int, device: Device) -> Tile:
    """Of the tiles that the device runs, the one with which its busiest processor is done first."""
    best, least = TILES[-1], 0.0
    for tile in TILES:
        if invocations(tile) > device.max_invocations or shared_bytes(tile, 16) > device.max_shared:
            continue
        groups = ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns) * parts
        rounds = ceil_div(groups, device.processors)
        time = tile.rows * tile.columns * (tile.cost * rounds + tile.start)
        if not least or time < least:
            best, least = tile, time
    return best


def product(
    entry: str,
    reads: "list[Binding]",
    writes: "list[Binding]",
    sizes: tuple[int, int, int],
    flags: "dict[str, Constant]",
    device: Device,
    parts: int = 1,
) -> list[Dispatch]:
    """A product [rows, columns] with sums over `depth`, of which `parts` are summed apart."""
    rows, columns, depth = sizes
    constants: dict[str, Constant] = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth}
    constants.update(flags)
    # Where a factor's memory runs along the depth that must be a multiple of 4, else the rows.
    other = rows if entry == "linear_backward_weight" else depth
    if columns % 4 or other % 4:
        grid = (ceil_div(columns, ANY_TILE), ceil_div(rows, ANY_TILE), parts)
        return [Dispatch(["gelu.wgsl", "linear_any.wgsl"], entry, reads, writes, constants, grid)]
    tile = tile_of(rows, columns, parts, device)
    constants["TILE_ROWS"] = tile.rows
    constants["TILE_COLUMNS"] = tile.columns
    constants["TILE_DEPTH"] = tile.depth
    constants["BLOCK_ROWS"] = tile.block_rows
    constants["BLOCK_COLUMNS"] = tile.block_columns
    constants["INVOCATIONS"] = invocations(tile)
    grid = (ceil_div(columns, tile.columns), ceil_div(rows, tile.rows), parts)
    files = ["gelu.wgsl", "tile_f16.wgsl" if device.f16 else "tile_f32.wgsl", "linear.wgsl"]
    return [Dispatch(files, entry, reads, writes, constants, grid)]


def flag(tensor: Tensor | None) -> int:
    return 0 if tensor is None else 1


def named(op: Op, names: str) -> "list[Binding]":
    return [(name, op.tensor(name)) for name in names.split()]


def row_product(
    entry: str, reads: "list[Binding]", writes: "list[Binding]", op: Op, flags: "dict[str, Constant]", device: Device
) -> list[Dispatch]:
    constants: dict[str, Constant] = {"COLUMNS": op.dim("O"), "DEPTH": op.dim("I"), "LANES": ROW_LANES}
    constants.update(flags)
    reduce = "reduce_subgroups.wgsl" if device.subgroups else "reduce_plain.wgsl"
    grid = line_grid(ceil_div(op.dim("O"), ROW_OUTPUTS), device)
    return [Dispatch([reduce, "gelu.wgsl", "linear_row.wgsl"], entry, reads, writes, constants, grid)]


def linear(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    flags: dict[str, Constant] = {"HAS_BIAS": flag(op.tensor("bias")), "HAS_RESIDUAL": flag(op.tensor("residual"))}
    reads, writes = named(op, "x weight bias residual"), named(op, "y")
    if op.dim("N") == 1:
        return row_product("linear", reads, writes, op, flags, device)
    return product("linear", reads, writes, (op.dim("N"), op.dim("O"), op.dim("I")), flags, device)


def linear_gelu(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    reads: list[Binding] = named(op, "x weight bias")
    activation: list[Binding] = [("activation", op.tensor("y"))]
    if op.dim("N") == 1 and op.tensor("slope") is None:
        return row_product("linear_gelu", reads, activation, op, {}, device)
    flags: dict[str, Constant] = {"HAS_SLOPE": flag(op.tensor("slope"))}
    writes = activation + named(op, "slope")
    return product("linear_gelu", reads, writes, (op.dim("N"), op.dim("O"), op.dim("I")), flags, device)


def linear_backward_input(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    reads: list[Binding] = [
        ("dy", op.tensor("dy")),
        ("weight_rows", op.tensor("weight")),
        ("kept_slope", op.tensor("slope")),
    ]
    flags: dict[str, Constant] = {"HAS_SLOPE": flag(op.tensor("slope"))}
    sizes = (op.dim("N"), op.dim("I"), op.dim("O"))
    return product("linear_backward_input", reads, named(op, "dx"), sizes, flags, device)


def linear_backward_weight(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    reads: list[Binding] = [("dy_rows", op.tensor("dy")), ("x_rows", op.tensor("x"))]
    flags: dict[str, Constant] = {
        "HAS_BIAS": flag(op.tensor("dbias")),
        "ACCUMULATE": op.dim("accumulate"),
        "SLICES": slices,
        "SLICE_DEPTH": ceil_div(op.dim("N"), slices),
    }
    sizes = (op.dim("O"), op.dim("I"), op.dim("N"))
    return product("linear_backward_weight", reads, named(op, "dweight dbias"), sizes, flags, device, slices)


LINEAR_KERNELS = {
    "linear": linear,
    "linear_gelu": linear_gelu,
    "linear_backward_input": linear_backward_input,
    "linear_backward_weight": linear_backward_weight,
}
