"""Where the parameters are in memory: matrices first, then vectors.

So weight decay covers one stretch, and an optimizer runs over one flat vector. q, k and v of a block are side by side,
and so are the two inputs of a gated MLP: a pass (core/passes/merge.py) makes one product of them. A model file has the
order of `core.models.parameters`; `moves` says how to get from one to the other.
"""

from collections import namedtuple

from tinygpt.core.models.parameters import Parameter
from tinygpt.core.ops.op import ALIGNMENT

LINE = 16  # floats in a 64-byte line, the unit in which the CPU's words count

# A tensor of the flat vector: `start` in floats.
Place = namedtuple("Place", ("name", "shape", "start", "size"))
# `size` floats at `offset` of the file's order are at `start` of the flat vector.
Move = namedtuple("Move", ("name", "offset", "start", "size"))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    return (size + alignment - 1) // alignment * alignment


# Linear maps of one input, and the name of the matrix in which they are side by side.
MERGED = ((("attn.q_proj", "attn.k_proj", "attn.v_proj"), "attn.qkv"), (("mlp.fc_gate", "mlp.fc_in"), "mlp.fc_gate_in"))


def merged_name(name: str, every: "dict[str, Parameter]") -> str:
    """The tensor that holds the parameter `name` of a model that has `every` one of these. Adapters share none."""
    if ".lora_" in name:
        return name
    for maps, merged in MERGED:
        for which in maps:
            if which in name and name.replace(which, maps[0]) in every:
                return name.replace(which, merged)
    return name


class Layout:
    def __init__(self, every: list[Parameter], alignment: int = ALIGNMENT, merged: bool = True) -> None:
        """Sizes are in floats, or in the unit that `alignment` is given in. Matrices that do not fill whole units are
        `merged` in any case: an optimizer expects q, k and v one after the other."""
        self.alignment = alignment
        names = {row.name: row for row in every}
        shared = [row for row in every if row.decay and merged_name(row.name, names) != row.name]
        self.merged = merged or [row for row in shared if row.size % alignment] != []
        self.places: list[Place] = []
        self.moves: list[Move] = []
        self.members: dict[str, list[Parameter]] = {}  # the parameters that a tensor holds
        self.holder: dict[str, str] = {}  # the tensor that holds a parameter
        self.size = 0
        self.add([parameter for parameter in every if parameter.decay])
        self.decayed = self.size  # what comes before is subject to weight decay
        self.add([parameter for parameter in every if not parameter.decay])

    def add(self, group: list[Parameter]) -> None:
        """Append the group's tensors, parameters that are merged next to each other."""
        names: list[str] = []
        by_name: dict[str, list[Parameter]] = {}
        every = {parameter.name: parameter for parameter in group}
        for parameter in group:
            name = merged_name(parameter.name, every) if self.merged else parameter.name
            if name not in by_name:
                names.append(name)
                by_name[name] = []
            by_name[name].append(parameter)
        for name in names:
            members = self.members[name] = by_name[name]
            shape = tuple([sum([member.shape[0] for member in members])] + list(members[0].shape[1:]))
            start = self.size
            for member in members:
                self.holder[member.name] = name
                self.moves.append(Move(member.name, member.offset, start, member.size))
                start += member.size
            self.places.append(Place(name, shape, self.size, start - self.size))
            self.size = aligned(start, self.alignment)


def members(layout: Layout) -> list[Place]:
    """The parameters that share a tensor, each as a place of its own."""
    shapes = {row.name: row.shape for place in layout.places for row in layout.members[place.name]}
    shared = [move for move in layout.moves if layout.holder[move.name] != move.name]
    return [Place(move.name, shapes[move.name], move.start, move.size) for move in shared]
