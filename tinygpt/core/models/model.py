"""What a model is to the programs of a run: logits for tokens, gradients for those of the logits, the next byte's."""

from tinygpt.core.config import RunConfig
from tinygpt.core.models.memory import Memory
from tinygpt.core.ops.compact import READS, unpack
from tinygpt.core.ops.linear import FEW_ROWS
from tinygpt.core.ops.op import Program, Tensor


class ModelProgram(Program):
    """A program over N = B * T rows of one model. With `learns`, a backward pass will follow."""

    def __init__(self, mode: str, config: RunConfig, memory: Memory, B: int, T: int, learns: bool) -> None:
        Program.__init__(self, mode)
        self.model, self.train = config.model, config.train
        self.memory = memory
        self.weight = memory.live_weight if learns else memory.weight  # by name
        self.B, self.T, self.N = B, T, B * T
        self.learns = learns
        self.scale = 1.0 if config.lora is None else config.lora.scale  # of adapters
        self.low: dict[str, Tensor] = {}  # what they keep for their gradients, by projection

    def rows(self, name: str, width: int) -> Tensor:
        return self.tensor(name, (self.N, width))

    def call(self, kernel: str, **arguments: "Tensor | int | float | None") -> None:
        """Where weights are compact, the kernel that reads them so; a product of many rows has them unpacked."""
        if self.memory.compact is None:
            Program.call(self, kernel, **arguments)
            return
        given = {name: arguments[name] for name in arguments if arguments[name] is not None}
        reads = ""
        for name in list(given):
            tensor = given[name]
            if not isinstance(tensor, Tensor) or tensor.dtype not in READS:
                continue
            if name == "weight" and self.N >= FEW_ROWS:
                given[name] = self.unpacked(tensor)
            else:
                if tensor.scales is not None:
                    given[name + "_scales"] = tensor.scales
                reads = READS[tensor.dtype]
        Program.call(self, kernel + reads, **given)

    def unpacked(self, weight: Tensor) -> Tensor:
        y = self.tensor(weight.name + ".unpacked", weight.shape)
        unpack(self, weight, y)
        return y

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits [N, V] of all rows."""
        raise NotImplementedError

    def backward(self, tokens: Tensor, dlogits: Tensor, accumulate: int) -> None:
        """All gradients. `accumulate` 0 overwrites what is there, 1 adds to it."""
        raise NotImplementedError

    def next_logits(self, tokens: Tensor, logits: Tensor) -> None:
        """Those [V] that follow the place `position` of a text, or of each [R, V]; of programs that write."""
        raise NotImplementedError
