"""Tiles of the blocked matmuls on a GPU: which there are, and which is the soonest done."""

from collections import namedtuple

from tinygpt.core.ops.gpu import Device, ceil_div

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

# A workgroup's part of the product, the depth it takes at a time, the blocks of 4×4 an invocation computes of it, and
# the teams that share the depth. A processor that has n such tiles to do needs start + cost * n for each of their sums.
# `everywhere`: whether it is for other products than a linear map's gradients, too.
Tile = namedtuple(
    "Tile", ("rows", "columns", "depth", "block_rows", "block_columns", "splits", "start", "cost", "everywhere")
)

# Fitted to what the kernels of whole steps took on an H200. A large tile reads less for each sum; small ones share the
# work out more evenly, and teams hide the wait for memory where a processor has little else to do.
TILES = (
    Tile(128, 128, 8, 2, 2, 1, 0.95, 0.65, True),
    Tile(64, 64, 8, 2, 1, 1, 1.05, 0.765, True),
    Tile(64, 64, 16, 2, 1, 1, 0.52, 1.02, False),
    Tile(64, 64, 16, 1, 1, 1, 0.1, 1.28, True),
    Tile(32, 32, 32, 1, 1, 2, 0.5, 1.9, True),
    Tile(32, 32, 32, 1, 1, 4, 0.1, 2.2, True),
    Tile(32, 32, 16, 1, 1, 1, 3.5, 1.5, True),
)


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


def fits(tile: Tile, device: Device) -> bool:
    return invocations(tile) <= device.max_invocations and shared_bytes(tile, 16) <= device.max_shared


def tile_of(products: list[Product], device: Device, gradients: bool = False) -> Tile:
    """Of the tiles that the device runs, the one with which its busiest processor is done first with all products,
    which may be the `gradients` of a linear map."""
    deepest = max([product.depth for product in products])
    best, least = TILES[-1], 0.0
    for tile in TILES:
        if not fits(tile, device) or not (tile.everywhere or gradients):
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
