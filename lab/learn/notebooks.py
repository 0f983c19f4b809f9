"""Makes notebooks of the first chapters of the trail: python -m lab.learn.notebooks"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from lab.learn.chapters import FENCE, QUESTION, TRAIL, Chapter, chapters, read_chapter

FIRST, LAST = 1, 6
FOLDER = TRAIL / "notebooks"


def taught() -> list[Chapter]:
    return [chapter for chapter in chapters() if FIRST <= int(chapter.name[:2]) <= LAST]


def notebook(chapter: Chapter) -> str:
    """Text and code in turns. What a block prints is left out: whoever runs it sees that."""
    cells: list[nbformat.NotebookNode] = []
    at, text = 0, QUESTION.sub(asked, chapter.text)
    for match in FENCE.finditer(text):
        if match[1] not in ("python", "output"):
            continue
        add_text(cells, text[at : match.start()])
        if match[1] == "python":
            cells.append(nbformat.v4.new_code_cell(match[2].rstrip()))
        at = match.end()
    add_text(cells, text[at:])
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # not a random one: the same chapter makes the same file
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": python})
    nbformat.validate(made)
    return str(nbformat.writes(made)) + "\n"


def asked(match: re.Match[str]) -> str:
    """A question, with its answer in a cell of its own."""
    return (
        f"{match[2]}\n\n<details><summary>How to find out</summary>{FENCE.sub('', match[3])}</details>\n\n"
        + "".join(fence[0] + "\n" for fence in FENCE.finditer(match[3]))
    )


def add_text(cells: list[nbformat.NotebookNode], text: str) -> None:
    """Links lead out of the folder of the notebooks."""
    if text.strip():
        text = re.sub(r"\]\((?=[^)#])(?!https?:)", "](../", text)
        text = re.sub(rf"\]\(\.\./(0[{FIRST}-{LAST}]-[\w-]+)\.md\)", r"](\1.ipynb)", text)
        cells.append(nbformat.v4.new_markdown_cell(re.sub(r" source=[^\n]*", "", text).strip()))


def path_of(chapter: Chapter) -> Path:
    return FOLDER / f"{chapter.name}.ipynb"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in taught():
        path_of(read_chapter(one.path)).write_text(notebook(one), encoding="utf-8")
