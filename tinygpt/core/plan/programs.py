"""Programs of a run, made and checked: what a lowering for any device begins with."""

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.programs import WATCHED
from tinygpt.core.names import matches_any
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.passes import MERGE, program_of
from tinygpt.core.plan.verify import MAX_DIM, verify

WATCH = "@"  # before the name of a temporary tensor that is watched


def check_sizes(config: RunConfig) -> None:
    """Refuse a run whose sizes a program's 32-bit words do not hold."""
    rows = config.train.batch * config.model.ctx
    if rows > MAX_DIM:
        raise TinyGPTError(
            f"batch {config.train.batch} × ctx {config.model.ctx} is {rows:,} rows, "
            f"and at most {MAX_DIM:,} are possible; use a smaller batch or ctx"
        )
    count = parameter_count(config.model)
    if count > MAX_DIM:
        raise TinyGPTError(
            f"this model has {count:,} parameters, "
            f"and at most {MAX_DIM:,} are possible; use fewer layers or a smaller d_model"
        )


class MadePrograms:
    """Some programs of a run, by mode, and the tensors that outlive them."""

    slices = 1  # in which gradients are kept: see ops/gpu.py

    def __init__(
        self,
        config: RunConfig,
        modes: list[str],
        train_bytes: int = 0,
        val_bytes: int = 0,
        kept: "tuple[str, ...]" = (),
        watched: "tuple[str, ...]" = (),
        texts: int = 1,
        compact: str = "",
        without: "tuple[str, ...]" = (),
    ) -> None:
        """`kept` are tensors that have a place though no program names them. `watched` are names, with * for anything:
        what a run leaves in such tensors can be read when it is over. So many `texts` are written at once. Weights are
        read as floats, or as a `compact` file of that dtype keeps them. Programs do `without` some passes."""
        check_sizes(config)
        self.modes = modes
        self.memory = Memory(config, train_bytes, val_bytes, texts, compact, merged=MERGE not in without)
        self.planned = modes + self.besides(config, modes)
        self.without = without
        self.programs: dict[str, Program] = {}
        for mode in self.planned:
            self.programs[mode] = program_of(mode, config, self.memory, without)
            verify(self.programs[mode])
        self.tensors = self.memory.named_in([self.programs[mode] for mode in modes], list(kept))
        self.tensors += self.outlive([self.programs[mode] for mode in modes if mode in WATCHED], watched)

    def besides(self, config: RunConfig, modes: list[str]) -> list[str]:
        """Programs that nobody asks for by name, but that do the same as some of these for less."""
        return []

    def outlive(self, programs: list[Program], watched: "tuple[str, ...]") -> list[Tensor]:
        """Make outputs of watched temporaries, so that nothing else comes to lie where they do. They have names of
        their own (WATCH), for programs that are not watched have tensors of the same names."""
        found: dict[str, Tensor] = {}
        order = []
        for program in programs:
            for tensor in program.written():
                if tensor.kind == "temp" and matches_any(watched, tensor.name):
                    tensor.kind, tensor.name = "output", WATCH + tensor.name
                    if tensor.name not in found:
                        found[tensor.name] = tensor
                        order.append(tensor)
        return order

    def places(self, tensor: Tensor, start: int, floats: int) -> list[list[int]]:
        """Where a stretch of a persistent tensor lies: buffer, place and size in bytes. Of gradients that are kept in
        slices all of them lie there."""
        raise NotImplementedError

    def compact_places(self) -> list[list[int]]:
        """Of compact weights, in the order of their file."""
        places: list[list[int]] = []
        compact = self.memory.compact
        for stretch in [] if compact is None else compact.stretches():
            ((buffer, place, _),) = self.places(stretch.tensor, 0, stretch.tensor.size)
            places.append([buffer, place + stretch.start, stretch.size])
        return places

    def file_places(self, vectors: list[Tensor]) -> list[list[int]]:
        """Of vectors over all that is trained, or of the base, in the order of the model file: of each parameter one
        after the other."""
        places: list[list[int]] = []
        layout = self.memory.layout
        if vectors[0] is self.memory.base and self.memory.base_layout is not None:
            layout = self.memory.base_layout
        for move in sorted(layout.moves, key=lambda move: move.offset):
            for vector in vectors:
                places += self.places(vector, move.start, move.size)
        return places
