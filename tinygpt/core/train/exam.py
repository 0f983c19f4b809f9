"""Asking a model what its text never asked, and counting the answers that are right to the last letter."""

from collections import namedtuple

from tinygpt.core.config import SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks.task import END, Exercises
from tinygpt.core.text import decode
from tinygpt.core.write.sampler import generate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

ON_THE_WAY = 64  # questions at each validation; at the end all are asked
SHOWN = 3  # right answers, and as many wrong ones

# hits: for each question whether it was answered right;  answers: some, each as [question, right answer, the model's]
ExamResult = namedtuple("ExamResult", ("hits", "answers"))


def accuracy(hits: "list[bool]") -> float:
    return hits.count(True) / len(hits)


def exam_facts(result: ExamResult) -> "dict[str, Any]":
    """As events and files have them."""
    hits = result.hits
    return {"accuracy": accuracy(hits), "right": hits.count(True), "asked": len(hits), "answers": result.answers}


def exam_of(text: str, ctx: int) -> "Exam | None":
    """Where a text's name is a task's. One whose lines do not fit into the context is refused."""
    from tinygpt.core.tasks import exercises, is_task

    return Exam(exercises(text), ctx) if is_task(text) else None


class Exam:
    """Questions of a task that are held out, each behind solved ones, as many as its window has room for.

    Training windows begin anywhere, so most questions that a model has seen stood behind others.
    """

    def __init__(self, exercises: Exercises, ctx: int) -> None:
        self.ctx = ctx
        self.questions = exercises.exam()
        longest = max([len(END + question + answer) for question, answer in self.questions])
        if longest > ctx:
            raise TinyGPTError(
                f"a line of {exercises.name} takes {longest} bytes and does not fit into ctx {ctx}: "
                f"use a ctx of at least {longest}, or fewer {exercises.task.measure}"
            )
        self.solved = exercises.text(False, 4 * ctx).decode().split(END)[:-1]

    def prompt(self, number: int) -> bytes:
        question, answer = self.questions[number]
        room = self.ctx - len(END + question + answer)
        lead = ""
        while True:
            line = self.solved[(number + lead.count(END)) % len(self.solved)] + END
            if len(lead) + len(line) > room:
                return (END + lead + question).encode()
            lead += line

    async def take(
        self, engine: "Any", count: int, stops: "Callable[[], Awaitable[bool]] | None" = None
    ) -> "ExamResult | None":
        """Ask the first `count` questions; None where a stop came into it.

        An answer is right where the model finds each of its bytes, and the end of the line, likeliest behind those
        before: then it would write just that. So a batch of questions is one pass over their windows.
        """
        count, batch = min(count, len(self.questions)), engine.config.train.batch
        hits: list[bool] = []
        for first in range(0, count, batch):
            if stops is not None and await stops():
                return None
            asked = range(first, min(first + batch, count))
            answers = [self.questions[number][1].encode() for number in asked]
            windows = [self.prompt(asked[i]) + answers[i] for i in range(len(asked))]
            found = await engine.likeliest_bytes(windows)
            for i in range(len(asked)):
                hits.append(found[i][-len(answers[i]) - 1 :] == answers[i] + END.encode())
        return ExamResult(hits, await self.shown(engine, hits))

    async def shown(self, engine: "Any", hits: "list[bool]") -> "list[list[str]]":
        """Some right answers, and some wrong ones as the model writes them."""
        rows: list[list[str]] = []
        for hit in (True, False):
            for number in [number for number in range(len(hits)) if hits[number] is hit][:SHOWN]:
                question, answer = self.questions[number]
                rows.append([question, answer, answer if hit else await self.written(engine, number)])
        return rows

    async def written(self, engine: "Any", number: int) -> str:
        """The model's greedy answer, of at most as many bytes as the right one and the end of the line."""
        settings = SampleConfig(temperature=0.0, tokens=len(self.questions[number][1]) + 1)
        made = await generate(engine, self.ctx, self.prompt(number), settings, (END.encode(),))
        return decode(made).replace(END, "")
