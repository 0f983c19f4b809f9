"""From a program and its plan to what the CPU engines take verbatim: a list of 32-bit words.

An op's words: kernel number, word count, each tensor's place in the arena in 64-byte lines (-1 where absent),
the scratch's place, the dims, the scalars' bits. Kernels of every CPU build and number of threads share them.
"""

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.layout import LINE
from tinygpt.core.memory import Plan, plan
from tinygpt.core.ops import KERNEL_NAMES, Op, Program, Tensor
from tinygpt.core.parameters import parameter_count
from tinygpt.core.program import Memory, programs
from tinygpt.core.verify import MAX_DIM, verify

# What the kernels' scratch is made of (linear.cpp, attention.cpp, layernorm.cpp, adamw.cpp).
MAX_THREADS = 64
PANEL = 64  # the columns of packed weights are padded to a multiple of this at most
ATTENTION_BLOCK = 64
NORM_CHUNKS = 256
ROW_CHUNKS = 64


def scratch_floats(op: Op) -> int:
    """Working memory of an op's CPU kernel, whatever its vector width and the number of threads."""
    if op.kernel in ("linear", "linear_gelu"):
        return op.dim("I") * padded(op.dim("O"))
    if op.kernel == "attention":  # a slice a thread, and no more threads than pieces of work
        pieces = op.dim("B") * op.dim("H") * ((op.dim("T") + ATTENTION_BLOCK - 1) // ATTENTION_BLOCK)
        return min(MAX_THREADS, pieces) * ATTENTION_BLOCK * (2 * op.dim("D") + ATTENTION_BLOCK)
    if op.kernel == "attention_backward":
        pieces = op.dim("B") * op.dim("H")
        return min(MAX_THREADS, pieces) * ATTENTION_BLOCK * (3 * op.dim("D") + 2 * ATTENTION_BLOCK)
    if op.kernel == "layernorm_backward":
        return 2 * ROW_CHUNKS * op.dim("C")
    if op.kernel == "grad_norm":
        return 2 * NORM_CHUNKS
    return 0


def padded(columns: int) -> int:
    return (columns + PANEL - 1) // PANEL * PANEL


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


class Lowered:
    """Everything an engine needs to know of a run: the memory, the plan, and each program's words."""

    def __init__(self, config: RunConfig) -> None:
        check_sizes(config)
        self.memory: Memory
        self.memory, made = programs(config)
        self.programs: dict[str, Program] = {program.mode: program for program in made}
        scratch: dict[str, list[Tensor | None]] = {}
        for program in made:
            verify(program)
            scratch[program.mode] = [scratch_tensor(index, op) for index, op in enumerate(program.ops)]
        self.plan: Plan = plan(self.memory.tensors(), made, scratch)
        self.words = {program.mode: lower(program, self.plan, scratch[program.mode]) for program in made}


def scratch_tensor(index: int, op: Op) -> Tensor | None:
    floats = scratch_floats(op)
    return Tensor(f"scratch.{index}", (floats,)) if floats else None


def lower(program: Program, places: Plan, scratch: list[Tensor | None]) -> list[int]:
    words: list[int] = []
    for op, own in zip(program.ops, scratch):  # noqa: B905 (MicroPython's zip takes no strict)
        tensors = op.tensors + [own]
        lines = [-1 if t is None else places.start(program.mode, t) // LINE for t in tensors]
        tail = lines + op.dims + op.scalars
        words += [KERNEL_NAMES.index(op.kernel), 2 + len(tail)] + tail
    return words
