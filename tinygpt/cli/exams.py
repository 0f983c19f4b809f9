"""The exam of a run on a task, and its answers as people are shown them."""

from __future__ import annotations

from typing import Any

from rich.text import Text

RIGHT_STYLE, WRONG_STYLE = "green", "red"


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
