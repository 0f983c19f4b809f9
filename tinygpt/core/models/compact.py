"""Weights in memory as a compact file keeps them: matrices in float16, or as whole numbers, in one vector; the scales
of the latter's rows, and what is no matrix, as floats in another."""

from collections import namedtuple

from tinygpt.core.models.layout import Layout, members
from tinygpt.core.models.parameters import Parameter
from tinygpt.core.ops.op import ALIGNMENT, Tensor

SCALES = ".scales"
TENSORS = {"int8": "i8", "float16": "f16"}  # of a file's dtypes, what its matrices are in programs

# `size` bytes of a parameter, `at` so many behind the first.
Piece = namedtuple("Piece", ("row", "at", "size"))
# `size` bytes that lie `start` bytes into a tensor.
Stretch = namedtuple("Stretch", ("tensor", "start", "size"))


class Compact:
    def __init__(self, every: list[Parameter], dtype: str) -> None:
        self.dtype = dtype
        self.every = every
        matrices = [row for row in every if is_matrix(row)]
        vectors = [row for row in every if not is_matrix(row)]
        self.scaled = dtype == "int8"
        self.per_float = 4 if self.scaled else 2  # weights in the room of a float
        self.packed_layout = Layout(matrices, self.per_float * ALIGNMENT)
        self.floats_layout = Layout(([scales_of(row) for row in matrices] if self.scaled else []) + vectors)
        self.packed = Tensor("packed", (self.packed_layout.size,), "compact", TENSORS[dtype])
        self.floats = Tensor("packed_floats", (self.floats_layout.size,), "compact")

    def views(self) -> dict[str, Tensor]:
        """Every tensor by the name that programs have for it."""
        views = {}
        for place in self.floats_layout.places + members(self.floats_layout):
            views[place.name] = self.floats.view(place.name, place.shape, place.start)
        for place in self.packed_layout.places + members(self.packed_layout):
            view = self.packed.view(place.name, place.shape, place.start // self.per_float)
            view.scales = views.pop(place.name + SCALES, None)
            views[place.name] = view
        return views

    def stretches(self) -> list[Stretch]:
        """Where the bytes of `packed_pieces` go. Padding to whole words comes to lie where the next tensor's bytes are
        written behind it, or in no tensor."""
        starts = {}
        for move in self.floats_layout.moves + self.packed_layout.moves:
            starts[move.name] = move.start
        found, each = [], 4 // self.per_float
        for row in self.every:
            if not is_matrix(row):
                found.append(Stretch(self.floats, 4 * starts[row.name], 4 * row.size))
                continue
            if self.scaled:
                found.append(Stretch(self.floats, 4 * starts[row.name + SCALES], 4 * row.shape[0]))
            found.append(Stretch(self.packed, each * starts[row.name], whole_words(each * row.size)))
        return found


def packed_pieces(every: list[Parameter], dtype: str) -> list[Piece]:
    """How weights are handed over: parameter by parameter, a matrix as its scales, if it has such, and its numbers,
    padded to whole words, and a vector as floats. Of int8, that is a file of ours."""
    pieces, at = [], 0
    for row in every:
        size = 4 * row.size
        if is_matrix(row):
            size = 4 * row.shape[0] + whole_words(row.size) if dtype == "int8" else whole_words(2 * row.size)
        pieces.append(Piece(row, at, size))
        at += size
    return pieces


def whole_words(size: int) -> int:
    return (size + 3) // 4 * 4


def is_matrix(row: Parameter) -> bool:
    return len(row.shape) == 2


def scales_of(row: Parameter) -> Parameter:
    return Parameter(row.name + SCALES, (row.shape[0],), 0, row.shape[0], 0.0, 0.0, False)
