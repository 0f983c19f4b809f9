"""From a program and its plan to what the CPU engines take verbatim: a list of 32-bit words.

An op's words: kernel number, word count, each tensor's place in the arena in 64-byte lines (-1 where absent),
the scratch's place, the dims, the scalars' bits. Kernels of every CPU build and number of threads share them.
"""

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.gpt import Memory, programs
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.plan.layout import LINE
from tinygpt.core.plan.memory import Plan, plan
from tinygpt.core.plan.verify import MAX_DIM, verify

MAX_THREADS = 64


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
    floats = op.scratch_floats()
    return Tensor(f"scratch.{index}", (floats,)) if floats else None


def lower(program: Program, places: Plan, scratch: list[Tensor | None]) -> list[int]:
    words: list[int] = []
    for op, own in zip(program.ops, scratch):  # noqa: B905 (MicroPython's zip takes no strict)
        tensors = op.tensors + [own]
        lines = [-1 if t is None else places.start(program.mode, t) // LINE for t in tensors]
        tail = lines + op.numbers()
        words += [KERNEL_NAMES.index(op.kernel), 2 + len(tail)] + tail
    return words
