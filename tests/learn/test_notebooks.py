"""The first chapters as notebooks: made of the chapters of today, and their cells run."""

import json
from pathlib import Path

import pytest

from lab.learn.chapters import Chapter
from lab.learn.notebooks import notebook, path_of, taught


@pytest.mark.parametrize("chapter", taught(), ids=lambda chapter: chapter.name)
def test_a_notebook_is_its_chapter(chapter: Chapter) -> None:
    kept = path_of(chapter).read_text(encoding="utf-8")
    assert kept == notebook(chapter), "run python -m lab.learn.notebooks"
    cells = json.loads(kept)["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [
        block.text.rstrip() for block in chapter.blocks if block.told == "python"
    ]  # test_chapters runs these
    said = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "How to find out" in said and "data-answer" not in said


def test_links_of_a_notebook_lead_somewhere() -> None:
    import re

    for chapter in taught():
        for address in re.findall(r"\]\(([^)#]+)", notebook(chapter)):
            assert (path_of(chapter).parent / Path(address.split("\\")[0])).exists(), (chapter.name, address)
