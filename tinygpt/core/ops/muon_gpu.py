"""Muon on a GPU: every product of all matrices is one dispatch; what they are is told in kernels/muon.cpp."""

from tinygpt.core.ops.flat import part, stretches_of
from tinygpt.core.ops.gpu import GROUP, Dispatch, Segment, Target, bound, ceil_div, flat_grid, line_grid, texts, width
from tinygpt.core.ops.linear_tiles import Product, Tile, tile_constants, tile_of
from tinygpt.core.ops.muon_matrices import COEFFICIENTS, Matrix, of_op
from tinygpt.core.ops.op import Op, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Binding, Constant

# Always float32: what float16 rounds off a square comes back many times larger.
PRODUCT_FILES = ["muon_matrices.wgsl", "tile_f32.wgsl", "linear_tile.wgsl", "muon_products.wgsl"]

TOGETHER = 16 * 1024 * 1024  # floats of matrices that go through the iterations at a time, where a block has no more

# Kinds of symmetric products, of muon_products.wgsl.
GRAM, POLYNOMIAL, PLAIN = 0, 1, 2


class UpperHalf(Product):
    """Of a symmetric product, the tiles on and above the diagonal."""

    def tiles(self, tile: Tile) -> int:
        across = ceil_div(self.rows, tile.rows)
        return across * (across + 1) // 2 * self.parts


def muon(op: Op, target: Target) -> list[Dispatch]:
    result: list[Dispatch] = []
    segments = stretches_of(op, target, ["grads"] + op.declared.outputs)
    if target.segments is None:
        return MatricesTogether(op, target, segments[0], 0).dispatches()
    first = op.tensor("grads").start  # type: ignore[union-attr]
    for segment in segments:
        for few in few_blocks(segment, first, op.dim("stride")):
            result += MatricesTogether(op, target, few, few.start - first).dispatches()
    return result


def few_blocks(segment: Segment, first: int, stride: int) -> list[Segment]:
    """A segment cut between blocks, the first of which begins at float `first`, for the sake of memory."""
    result = []
    start, end = segment.start, segment.start + segment.floats
    while start < end:
        block = start - (start - first) % stride
        stop = min(end, block + max(1, TOGETHER // stride) * stride)
        parts = {name: part(segment.tensors[name], start, stop - start) for name in segment.tensors}
        result.append(Segment(start, stop - start, 0, parts))
        start = stop
    return result


class MatricesTogether:
    """Matrices of one segment of the flat vectors, from float `begin` of the op's stretch on."""

    def __init__(self, op: Op, target: Target, segment: Segment, begin: int) -> None:
        self.op = op
        self.target = target
        self.segment = segment
        every, end = of_op(op), begin + segment.floats
        inside = [i for i in range(len(every)) if begin <= every[i].start < end]
        self.matrices = [every[i] for i in inside]
        self.begin = begin
        self.made = 0
        self.C = op.dim("C")
        self.wide = ceil_div(self.C, 4) * 4
        self.x_floats = self.wide * sum([longer(matrix) for matrix in self.matrices])
        self.constants: dict[str, Constant] = {"C": self.C, "F": op.dim("F"), "GATES": op.dim("gates")}
        self.before = inside[0]
        self.constants["ROWS_BEFORE"] = sum([longer(matrix) for matrix in every[: inside[0]]])

    def temporary(self, name: str, floats: int) -> Tensor:
        self.made += 1
        return Tensor(f"muon.{self.target.index}.{self.segment.start}.{self.made}.{name}", (floats,))

    def squares(self, name: str) -> Tensor:
        return self.temporary(name, len(self.matrices) * self.wide * self.wide)

    def dispatches(self) -> list[Dispatch]:
        steps, every = self.op.dim("steps"), self.op.dim("every")
        x, scales = self.temporary("x", self.x_floats), self.temporary("scales", len(self.matrices))
        result = [self.momentum(x)]
        a = p = q = scales
        for i in range(steps):
            first, last = i % every == 0, i + 1 == steps or (i + 1) % every == 0
            scaled = scales if first else None  # X is divided by its norm at the end
            if first:
                a = self.squares("a")
                result.append(self.square(GRAM, x, x, a))
                if i == 0:
                    result.append(self.norms(a, scales))
            p = self.squares("p")
            result.append(self.square(POLYNOMIAL, a, a, p, scales=scaled, iteration=i))
            old_q, q = q, p if first else self.squares("q")
            if not last:
                pa, next_a = self.squares("pa"), self.squares("a")
                more = None if first else (old_q, q)
                result.append(self.square(PLAIN, p, a, pa, more, scales=scaled))
                result.append(self.square(PLAIN, pa, p, next_a))
                a = next_a
                continue
            if not first:
                result.append(self.square(PLAIN, p, old_q, q))
            next_x = self.temporary("x", self.x_floats)
            result.append(self.apply(x, q, next_x))
            x = next_x
        return result + [self.update(x, scales)]

    # --- number by number ------------------------------------------------------------------------------------

    def flat(
        self, entry: str, reads: "list[Binding]", writes: "list[Binding]", more: "dict[str, Constant]"
    ) -> Dispatch:
        wide = width(self.C)
        constants = dict(self.constants)
        for name in ["W", "stride", "o_at", "in_at", "out_at"]:
            constants[name.upper()] = self.op.dim(name)
        constants["P"] = self.segment.floats
        constants["FLOATS_BEFORE"] = self.begin
        constants.update(more)
        grid = flat_grid(self.segment.floats // wide, self.target.device)
        return Dispatch(self.files(wide), entry, reads, writes, constants, grid)

    def files(self, wide: int) -> list[str]:
        return ["muon_matrices.wgsl"] + texts("muon", wide, self.target.device, sliced=True)

    def momentum(self, x: Tensor) -> Dispatch:
        reads = [("grads", self.segment.tensors["grads"])] + bound(self.op, "norm")
        more: dict[str, Constant] = {"MOMENTUM": self.op.scalar("momentum"), "SLICES": self.target.slices}
        return self.flat("muon_momentum", reads, [("m", self.segment.tensors["m"]), ("x", x)], more)

    def update(self, x: Tensor, scales: Tensor) -> Dispatch:
        reads = [("orthogonal", x), ("scales", scales)] + bound(self.op, "rates counters")
        more = self.table()
        more["BEFORE"] = self.before
        return self.flat("muon_update", reads, [("weights", self.segment.tensors["weights"])], more)

    def table(self) -> "dict[str, Constant]":
        return {"ROWS": self.op.dim("rows"), "COLUMNS": self.op.dim("columns")}

    def norms(self, gram: Tensor, scales: Tensor) -> Dispatch:
        grid = line_grid(len(self.matrices), self.target.device)
        constants: dict[str, Constant] = {"C": self.C, "LANES": GROUP}
        return Dispatch(self.files(1), "muon_norm", [("gram", gram)], [("inverse_norms", scales)], constants, grid)

    # --- products --------------------------------------------------------------------------------------------

    def product_constants(self, tile: Tile) -> "dict[str, Constant]":
        constants = dict(self.constants)
        constants["BEFORE"] = self.before
        constants.update(tile_constants(tile))
        return constants

    def square(
        self,
        kind: int,
        left: Tensor,
        right: Tensor,
        product: Tensor,
        more: "tuple[Tensor, Tensor] | None" = None,
        scales: "Tensor | None" = None,
        iteration: int = 0,
    ) -> Dispatch:
        """A symmetric product of each matrix. `more` are right factors, and the left ones' products by them."""
        more_right, more_product = more or (None, None)
        batches = 1 if more is None else 2
        upper = UpperHalf(self.wide, self.wide, self.C, len(self.matrices) * batches)
        tile = tile_of([upper], self.target.device)
        constants = self.product_constants(tile)
        constants.update(self.table())
        constants["KIND"] = kind
        constants["SCALED"] = 0 if scales is None else 1
        constants["COEFFICIENTS"] = COEFFICIENTS + 3 * iteration
        reads = [
            ("left_factors", left),
            ("right_factors", right),
            ("more_right_factors", more_right),
            ("scales", scales),
        ]
        reads += bound(self.op, "rates counters")
        writes = [("products", product), ("more_products", more_product)]
        grid = (upper.tiles(tile) // upper.parts, len(self.matrices), batches)
        return Dispatch(PRODUCT_FILES, "muon_square", reads, writes, constants, grid)

    def apply(self, x: Tensor, square: Tensor, next_x: Tensor) -> Dispatch:
        products = [Product(longer(matrix), self.wide, self.wide) for matrix in self.matrices]
        tile = tile_of(products, self.target.device)
        rows = max([product.rows for product in products])
        grid = (ceil_div(self.wide, tile.columns), ceil_div(rows, tile.rows), len(products))
        reads: list[Binding] = [("x", x), ("square", square)]
        return Dispatch(PRODUCT_FILES, "muon_apply", reads, [("next_x", next_x)], self.product_constants(tile), grid)


def longer(matrix: Matrix) -> int:
    return int(max(matrix.outputs, matrix.inputs))
