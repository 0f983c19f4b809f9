"""The exam of a run on a task, and its answers as people are shown them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from tinygpt.core.tasks import exercises, is_task

if TYPE_CHECKING:
    from tinygpt.cli.choices import DataChoice
    from tinygpt.core.run.exam import Exam

RIGHT_STYLE, WRONG_STYLE = "green", "red"


def exam_of(data: DataChoice, ctx: int) -> Exam | None:
    """Where the text is a task's. One whose lines do not fit into the context is refused."""
    from tinygpt.core.run.exam import Exam

    return Exam(exercises(data.name), ctx) if is_task(data.name) else None


def result_line(event: dict[str, Any]) -> str:
    """As "97.5 %, 39 of 40 unseen questions answered right"."""
    share = f"{100 * event['accuracy']:.1f}".removesuffix(".0")
    return f"{share} %, {event['right']} of {event['asked']} unseen questions answered right"


def answer_lines(event: dict[str, Any], most: int) -> list[Text]:
    """Some answers, the right ones first."""
    rows = sorted(event.get("answers", []), key=lambda row: row[1] != row[2])
    if len(rows) > most:  # some of both
        rows = rows[: (most + 1) // 2] + rows[len(rows) - most // 2 :]
    lines = []
    for question, answer, said in rows:
        right = said == answer
        verdict = Text("right", RIGHT_STYLE) if right else Text(f"wrong: {answer}", WRONG_STYLE)
        lines.append(Text.assemble(question, (said, "bold"), "  ", verdict))
    return lines
