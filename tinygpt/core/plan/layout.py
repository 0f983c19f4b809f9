"""Where the parameters lie in memory: matrices first, then vectors; q, k and v of a block side by side, and so the
gate and the other half of a gated MLP.

So weight decay covers one stretch, an optimizer runs over one flat vector, and the projections of one input are one
matmul.
A model file keeps the order of `core.parameters`; `moves` says how to go from one to the other.
"""

from collections import namedtuple

from tinygpt.core.models.parameters import Parameter
from tinygpt.core.ops.op import ALIGNMENT

LINE = 16  # floats in a 64-byte line, the unit in which the CPU's words count

# A tensor of the flat vector: `start` in floats.
Place = namedtuple("Place", ("name", "shape", "start", "size"))
# `size` floats at `offset` of the file's order lie at `start` of the flat vector.
Move = namedtuple("Move", ("name", "offset", "start", "size"))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    return (size + alignment - 1) // alignment * alignment


def merged_name(name: str) -> str:
    """The tensor that holds a parameter: q, k and v share one, and so do a gate and fc_in; adapters share none."""
    if ".lora_" in name:
        return name
    for projection in ("q_proj", "k_proj", "v_proj"):
        name = name.replace("attn." + projection, "attn.qkv")
    return name.replace("mlp.fc_gate", "mlp.fc_in")


class Layout:
    def __init__(self, every: list[Parameter], alignment: int = ALIGNMENT) -> None:
        """In floats, or in whatever of which `alignment` lie between places that can be bound."""
        self.alignment = alignment
        self.places: list[Place] = []
        self.moves: list[Move] = []
        self.members: dict[str, list[Parameter]] = {}  # the parameters that a tensor holds
        self.size = 0
        self.add([parameter for parameter in every if parameter.decay])
        self.decayed = self.size  # what lies before is subject to weight decay
        self.add([parameter for parameter in every if not parameter.decay])

    def add(self, group: list[Parameter]) -> None:
        """Append the group's tensors; parameters that are merged stand next to each other in it once sorted."""
        names: list[str] = []
        by_name: dict[str, list[Parameter]] = {}
        for parameter in group:
            name = merged_name(parameter.name)
            if name not in by_name:
                names.append(name)
                by_name[name] = []
            by_name[name].append(parameter)
        for name in names:
            members = self.members[name] = by_name[name]
            shape = tuple([sum([member.shape[0] for member in members])] + list(members[0].shape[1:]))
            start = self.size
            for member in members:
                self.moves.append(Move(member.name, member.offset, start, member.size))
                start += member.size
            self.places.append(Place(name, shape, self.size, start - self.size))
            self.size = aligned(start, self.alignment)
