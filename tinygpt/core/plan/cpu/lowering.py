"""From programs to what the CPU engines take verbatim: an arena's size, and lists of 32-bit words.

An op's words: kernel number, word count, each tensor's place in the arena in 64-byte lines (-1 where absent),
the scratch's place, the dims, the scalars' bits, and of each tensor whose rows may lie apart their pitch and how many
floats behind its place the first begins. Kernels of every CPU build and number of threads share them.
"""

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.layout import LINE
from tinygpt.core.models.programs import short_prefills
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import Op, Program, Tensor
from tinygpt.core.plan.memory import Plan, plan
from tinygpt.core.plan.programs import MadePrograms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPACT = ("int8",)  # of a file's dtypes, those that every CPU reads weights in faster than as floats
MAX_THREADS = 64
TEAM_WORDS = 32 + 16 * MAX_THREADS  # that its threads share: kernels/tg.h
STOP_WORD, DONE_WORD = 17, 18  # of those: whether a run is to end, and how often it was run


class Lowered(MadePrograms):
    """Everything a player on a CPU needs to know of some programs of a run: places in one arena, and words."""

    def __init__(
        self, config: RunConfig, modes: list[str], train_bytes: int = 0, val_bytes: int = 0, **how: "Any"
    ) -> None:
        MadePrograms.__init__(self, config, modes, train_bytes, val_bytes, **how)
        made = [self.programs[mode] for mode in self.planned]
        scratch: dict[str, list[Tensor | None]] = {}
        for program in made:
            scratch[program.mode] = [scratch_tensor(index, op) for index, op in enumerate(program.ops)]
        self.plan: Plan = plan(self.tensors, made, scratch)
        self.words: dict[str, list[int]] = {}
        self.commits: dict[str, int] = {}  # the word from which on a program cannot be abandoned
        for program in made:
            self.words[program.mode], self.commits[program.mode] = lower(program, self.plan, scratch[program.mode])

    def besides(self, config: RunConfig, modes: list[str]) -> list[str]:
        """A CPU takes as long for a prompt as there are rows; a GPU does not."""
        return short_prefills(config) if "prefill" in modes else []

    def bytes(self) -> int:
        return self.plan.bytes()

    def places(self, tensor: Tensor, start: int, floats: int) -> list[list[int]]:
        return [[0, 4 * (self.plan.persistent_start(tensor) + start), 4 * floats]]

    def playbook(self) -> "dict[str, Any]":
        """What a player takes, as plain data."""
        programs = {mode: {"words": self.words[mode], "commit": self.commits[mode]} for mode in self.planned}
        return {"buffers": [self.bytes()], "programs": programs}

    def let_go(self) -> None:
        """Forget all but the places of what outlives a run: the player has the rest."""
        self.programs, self.words = {}, {}
        self.plan.temporary, self.plan.starts = {}, {}

    def op_times(self, mode: str, seconds: list[float]) -> list[tuple[Op, float]]:
        """Each op of a program with its seconds."""
        return list(zip(self.programs[mode].ops, seconds))  # noqa: B905 (MicroPython's zip takes no strict)


def line_of(start: int) -> int:
    if start % LINE:
        raise TinyGPTError(f"a tensor begins at float {start}, which is no line's first; this is a bug")
    return start // LINE


def scratch_tensor(index: int, op: Op) -> Tensor | None:
    floats = op.scratch_floats()
    return Tensor(f"scratch.{index}", (floats,)) if floats else None


def lower(program: Program, places: Plan, scratch: list[Tensor | None]) -> tuple[list[int], int]:
    """A program's words, and the one from which on it cannot be abandoned."""
    words: list[int] = []
    commit = 0
    for index in range(len(program.ops)):
        op = program.ops[index]
        if index == program.committed:
            commit = len(words)
        tensors = op.tensors + [scratch[index]]
        lines = [-1 if t is None else line_of(places.start(program.mode, t) - t.offset()) for t in tensors]
        tail = lines + op.numbers()
        words += [KERNEL_NAMES.index(op.kernel), 2 + len(tail)] + tail
    return words, commit
