"""Texts that are made up, line by line, so that answers can be scored: a task, and the exercises it gives.

A line is a question and its answer, as in 12+34=46. Which questions are held out is decided by the question itself, so
that none of the exam's stands in the training text, however long that is.
"""

from collections import namedtuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.rng import MASK, TASK_DRAW, TASK_SPLIT, philox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PREFIX = "task:"
END = "\n"  # of a line; no question or answer has one
WORTH = 2**20  # outcomes that 32 random bits decide among, evenly enough
TRIES = 10000  # draws in search of one question of a side
EXAM_QUESTIONS = 200
FEW_LEFT = 100  # draws in a row that bring no new question: there are hardly more

# measure: what the difficulty counts;  train: of 100 questions, so many are trained on;
# make(draw, difficulty): a question and its answer;  twin(question): one text for questions that give each other away.
Task = namedtuple("Task", ("name", "help", "measure", "low", "high", "default", "train", "make", "twin"))


def itself(question: str) -> str:
    return question


class Draw:
    """The random choices of one question."""

    def __init__(self, seed: int, index: int, attempt: int, held_out: bool) -> None:
        self.key = (seed, TASK_DRAW)
        self.place = (index, attempt, 1 if held_out else 0)
        self.block = 0
        self.words: list[int] = []
        self.word = 0  # what is left of the one in use
        self.used = WORTH  # how many outcomes it has decided among

    def below(self, limit: int) -> int:
        """A number in [0, limit). A word decides several, as long as none becomes much likelier than another."""
        self.used *= limit
        if self.used > WORTH:
            if not self.words:
                self.words = list(philox(self.key, self.place + (self.block,)))
                self.block += 1
            self.word, self.used = self.words.pop(), limit
        product = self.word * limit
        self.word = product & MASK
        return product >> 32

    def letters(self, count: int, alphabet: str) -> str:
        return "".join([alphabet[self.below(len(alphabet))] for _ in range(count)])

    def some(self, count: int, items: "Sequence[Any]") -> "list[Any]":
        """So many of the items, none twice, in any order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]


class Exercises:
    """A task at a difficulty: its questions, in a random order that the seed decides, and their two sides."""

    def __init__(self, task: Task, difficulty: int, seed: int, train: int) -> None:
        for what, value, low, high in (
            (task.measure, difficulty, task.low, task.high),
            ("seed", seed, 0, MASK),
            ("train", train, 1, 99),
        ):
            if not low <= value <= high:
                raise TinyGPTError(f"{PREFIX}{task.name} takes {what} from {low} to {high}, not {value}")
        self.task = task
        self.difficulty = difficulty
        self.seed = seed
        self.train = train

    @property
    def name(self) -> str:
        """As a command takes it; what is not stated is the default."""
        task = self.task
        name: str = PREFIX + task.name
        if self.difficulty != task.default:
            name += f":{self.difficulty}"
        if self.train != task.train:
            name += f",train={self.train}"
        return name + (f",seed={self.seed}" if self.seed else "")

    def describe(self) -> str:
        task = self.task
        return f"{task.help}; {task.measure} {self.difficulty}, {self.train} of 100 questions trained on"

    def example(self) -> str:
        return self.text(False, 1).decode().strip()

    def is_held_out(self, question: str) -> bool:
        """Decided by the question, or the one text that its twins share, and by nothing else: whatever the seed, what
        one exam asks is no other text's to train on."""
        data: bytes = self.task.twin(question).encode()
        mixed = (len(data), 0, 0, 0)
        for start in range(0, len(data), 16):
            part = data[start : start + 16] + bytes(16 - len(data[start : start + 16]))
            words = [int.from_bytes(part[4 * i : 4 * i + 4], "little") ^ mixed[i] for i in range(4)]
            mixed = philox((0, TASK_SPLIT), (words[0], words[1], words[2], words[3]))
        return (mixed[0] * 100) >> 32 >= self.train

    def pair(self, held_out: bool, index: int) -> "tuple[str, str]":
        """Question and answer number `index` of a side."""
        for attempt in range(TRIES):
            question, answer = self.task.make(Draw(self.seed, index, attempt, held_out), self.difficulty)
            if self.is_held_out(question) == held_out:
                return question, answer
        side = "to hold out" if held_out else "to train on"
        raise TinyGPTError(f"{self.name} has no question {side}; choose another train=, or more {self.task.measure}")

    def text(self, held_out: bool, size: int) -> bytes:
        """Whole lines of a side, at least so many bytes."""
        lines: list[str] = []
        length = index = 0
        while length < size:
            question, answer = self.pair(held_out, index)
            lines.append(question + answer + END)
            length += len(lines[-1])
            index += 1
        return "".join(lines).encode()

    def exam(self, count: int = EXAM_QUESTIONS) -> "list[tuple[str, str]]":
        """Questions that are held out, each once; fewer where there are not so many."""
        found: list[tuple[str, str]] = []
        seen: dict[str, bool] = {}
        index = again = 0
        while len(found) < count and again < FEW_LEFT:
            question, answer = self.pair(True, index)
            again = again + 1 if question in seen else 0
            if not again:
                seen[question] = True
                found.append((question, answer))
            index += 1
        return found
