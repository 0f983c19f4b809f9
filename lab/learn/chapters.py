"""A chapter of the trail is Markdown that runs: its Python blocks, in their order, print what the text says they print.

```python                         runs, in one namespace with the blocks before
```output                         what the block before it prints; … stands for anything
```python source=PATH#NAME        not run: what that file has under that name, or all of it
<details data-answer="5.55" data-hint="Try …">
                                  a question; the Python block in it prints the answer

python -m lab.learn.chapters      copies the named sources into all chapters again
"""

from __future__ import annotations

import ast
import io
import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRAIL = ROOT / "docs" / "learn"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
QUESTION = re.compile(
    r'^<details data-answer="([^"]*)" data-hint="[^"]+">\n<summary>(.*?)</summary>(.*?)^</details>$', re.M | re.S
)
MARK = "…"


@dataclass
class Block:
    """A fenced block: `told` is what stands behind its backquotes, `line` where its text begins."""

    told: str
    text: str
    line: int
    answer: str | None = None  # of a question, the one that it prints
    output: str | None = None  # what the chapter says it prints

    @property
    def source(self) -> str | None:
        return self.told.partition("source=")[2] or None


@dataclass
class Chapter:
    path: Path
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        return self.text.splitlines()[0].removeprefix("# ")


def chapters() -> list[Chapter]:
    """All of them, in the order of the trail."""
    return [read_chapter(path) for path in sorted(TRAIL.glob("[0-9]*.md"))]


def read_chapter(path: Path) -> Chapter:
    chapter, text = Chapter(path), path.read_text(encoding="utf-8")
    questions = [(match.start(), match.end(), match[1]) for match in QUESTION.finditer(text)]
    for match in FENCE.finditer(text):
        told, inside = match[1].strip(), match[2]
        if told == "output":
            chapter.blocks[-1].output = inside
            continue
        answers = [answer for start, end, answer in questions if start < match.start() < end]
        line = text.count("\n", 0, match.start(2)) + 1
        chapter.blocks.append(Block(told, inside, line, answers[0] if answers else None))
    return chapter


def run(chapter: Chapter, kinds: tuple[str, ...] = ("python",)) -> list[str]:
    """Every place where a block of these kinds does not print what the chapter says."""
    wrong: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in chapter.blocks:
        if block.told not in kinds:
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            # Line numbers of the chapter, so that a traceback leads there.
            exec(compile("\n" * (block.line - 1) + block.text, str(chapter.path), "exec"), names)
        stated = block.answer if block.answer is not None else block.output
        if stated is not None and not agrees(stated, printed.getvalue()):
            wrong.append(f"{chapter.path}:{block.line} prints\n{printed.getvalue()}where it says\n{stated}")
    return wrong


def agrees(stated: str, printed: str) -> bool:
    """Whether what was printed is what is stated, where … may be anything, also of several lines."""
    pattern = ".*".join(re.escape(part) for part in stated.strip().split(MARK))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def named_source(source: str) -> str:
    """What a file has under a name: the function or class itself, as it is laid out there."""
    path, _, name = source.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    if not name:
        return text
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
                return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno]) + "\n"
    else:
        found = re.search(rf"^[^\n/]*\b{name}\b[^\n]*\{{\n.*?^\}}\n", text, re.M | re.S)
        if found:
            return found[0]
    raise LookupError(f"{path} has nothing called {name}")


def refreshed(chapter: Chapter) -> str:
    """The chapter's text, with its named sources as they are now."""

    def copied(match: re.Match[str]) -> str:
        source = Block(match[1].strip(), match[2], 0).source
        return f"```{match[1]}\n{named_source(source)}```" if source else match[0]

    return FENCE.sub(copied, chapter.text)


if __name__ == "__main__":
    for one in chapters():
        one.path.write_text(refreshed(one), encoding="utf-8")
    for one in chapters():
        if one.name in sys.argv[1:]:
            sys.exit("\n".join(run(one)) or None)
