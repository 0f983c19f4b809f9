"""What a lab on a kernel is: one of our WGSL files, the lines of it that the reader writes, and calls that tell right
from wrong."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Dims = dict[str, Any]
    Given = dict[str, Any]  # a kernel's arguments by name
    Fill = Callable[[Any, Dims, Any], Any]  # given standard normal numbers, the call's dims, and a source of chance

YOURS = "yours.wgsl"  # what a player finds the reader's file under,
WATCHED = "watched.wgsl"  # and with its loops watched


class KernelLab:
    """A kernel whose heart is cut out."""

    def __init__(
        self,
        name: str,
        title: str,
        degree: str,
        file: str,
        heart: "tuple[str, int, int]",
        statement: str,
        starter: str,
        hints: "tuple[str, ...]",
        near: "tuple[tuple[str, str], ...]",
        cases: "tuple[tuple[str, Dims], ...]",
        timed: "tuple[str, Dims]",
        fills: "dict[str, Fill] | None" = None,
        scalars: "dict[str, float] | None" = None,
        settle: "Callable[[Given], None] | None" = None,
        changes: "dict[str, Any] | None" = None,
        has_barriers: bool = False,
    ) -> None:
        """`heart` is where the reader's lines are: so many lines after the one that has this text (it alone has it),
        and so many of them. `starter` is there to begin with. `near` has pairs (part of our lines, what is there
        instead) that must not pass. `cases` are calls (kernel, dims); None there is a tensor that is absent, a tuple
        one's shape, a list one's numbers. `timed` is a larger call. `fills` make numbers that are not standard normal,
        `settle` makes inputs agree that do in training. `changes` are settings with which a model trains with it.
        `has_barriers` says whether our lines have any."""
        self.name, self.title, self.degree, self.file, self.heart = name, title, degree, file, heart
        self.statement, self.starter, self.hints, self.near = statement, starter, hints, near
        self.cases, self.timed = cases, timed
        self.fills, self.scalars, self.settle, self.changes = fills or {}, scalars or {}, settle, changes or {}
        self.has_barriers = has_barriers

    def cut(self, text: str) -> "tuple[str, str, str]":
        """The file's text before the heart, the heart, and after it."""
        lines = text.splitlines(True)
        found = [number for number in range(len(lines)) if self.heart[0] in lines[number]]
        if len(found) != 1:
            raise ValueError(f"{self.file} has '{self.heart[0]}' in {len(found)} lines; a lab needs it in one")
        first = found[0] + self.heart[1]
        last = first + self.heart[2]
        return "".join(lines[:first]), "".join(lines[first:last]), "".join(lines[last:])

    def facts(self, text: str) -> "dict[str, Any]":
        """What the page shows."""
        before, solution, after = self.cut(text)
        return {
            "name": self.name,
            "title": self.title,
            "degree": self.degree,
            "file": self.file,
            "statement": self.statement,
            "before": before,
            "starter": self.starter,
            "solution": solution,
            "after": after,
            "hints": list(self.hints),
            "changes": self.changes,
        }


def one_per_row(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    """Each row off its centre by a number of its own."""
    return normal + 2 * rng.normal(size=(normal.shape[0], 1))


def about_one(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    return 1 + 0.2 * normal
