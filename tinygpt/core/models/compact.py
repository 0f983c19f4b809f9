"""Weights in memory as a compact file keeps them: matrices as whole numbers, in one vector; the scales of their rows,
and what is no matrix, as floats in another."""

from collections import namedtuple

from tinygpt.core.models.parameters import Parameter
from tinygpt.core.ops.op import ALIGNMENT, Tensor
from tinygpt.core.plan.layout import Layout

SCALES = ".scales"

# `size` bytes that lie `start` bytes into a tensor.
Stretch = namedtuple("Stretch", ("tensor", "start", "size"))


class Compact:
    def __init__(self, every: list[Parameter], dtype: str) -> None:
        self.dtype = dtype
        self.every = every
        self.bytes_layout = Layout([row for row in every if is_matrix(row)], 4 * ALIGNMENT)
        self.floats_layout = Layout([scales_of(row) if is_matrix(row) else row for row in every])
        self.bytes = Tensor("packed", (self.bytes_layout.size,), "compact", "i8")
        self.floats = Tensor("packed_floats", (self.floats_layout.size,), "compact")

    def views(self) -> dict[str, Tensor]:
        """Every tensor by the name that programs have for it."""
        views = {}
        for place in self.floats_layout.places:
            views[place.name] = self.floats.view(place.name, place.shape, place.start)
        for place in self.bytes_layout.places:
            view = self.bytes.view(place.name, place.shape, place.start // 4)
            view.scales = views.pop(place.name + SCALES)
            views[place.name] = view
        return views

    def stretches(self) -> list[Stretch]:
        """Where the bytes of a compact file go, one behind the other. Padding to whole words comes to lie where the
        next tensor's bytes are written behind it, or in no tensor."""
        starts = {}
        for move in self.floats_layout.moves + self.bytes_layout.moves:
            starts[move.name] = move.start
        found = []
        for row in self.every:
            if is_matrix(row):
                found.append(Stretch(self.floats, 4 * starts[row.name + SCALES], 4 * row.shape[0]))
                found.append(Stretch(self.bytes, starts[row.name], (row.size + 3) // 4 * 4))
            else:
                found.append(Stretch(self.floats, 4 * starts[row.name], 4 * row.size))
        return found


def is_matrix(row: Parameter) -> bool:
    return len(row.shape) == 2


def scales_of(row: Parameter) -> Parameter:
    return Parameter(row.name + SCALES, (row.shape[0],), 0, row.shape[0], 0.0, 0.0, False)
