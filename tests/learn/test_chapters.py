"""Every chapter of the trail runs: its code prints what it says, its answers are right, its sources are today's."""

import re
from pathlib import Path

import pytest

from lab.learn.chapters import QUESTION, TRAIL, Chapter, agrees, chapters, named_source, read_chapter, refreshed, run

CHAPTERS = pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)


@CHAPTERS
def test_a_chapter_prints_what_it_says(chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(chapter) == []


@pytest.mark.xdist_group("wgpu")
def test_the_chapter_on_webgpu_runs_on_one() -> None:
    from tinygpt.engines.gpu import all_adapters

    if not all_adapters():
        pytest.skip("there is no GPU, and no software driver for one")
    (chapter,) = [chapter for chapter in chapters() if any(block.told == "python gpu" for block in chapter.blocks)]
    assert run(chapter, ("python", "python gpu")) == []


@CHAPTERS
def test_a_chapter_has_its_parts(chapter: Chapter) -> None:
    """How long it takes and what it needs, something to try, and a question whose answer its own code computes."""
    assert re.search(r"^\*About \d+ minutes\. You need: .+\*$", chapter.text, re.M)
    assert "> **Try it.**" in chapter.text
    assert QUESTION.search(chapter.text) and any(block.answer is not None for block in chapter.blocks)
    assert chapter.text.count("<details") == len(QUESTION.findall(chapter.text))


@CHAPTERS
def test_listings_are_the_sources_of_today(chapter: Chapter) -> None:
    assert chapter.text == refreshed(chapter), "run python -m lab.learn.chapters"


def test_the_trail_lists_every_chapter_in_its_order() -> None:
    listed = re.findall(r"\]\((\d\d-[\w-]+\.md)\)", (TRAIL / "README.md").read_text(encoding="utf-8"))
    assert listed == [chapter.path.name for chapter in chapters()]


def test_a_chapter_that_says_something_else_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "99-wrong.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n")
    assert "prints\n2\nwhere it says\n3" in run(read_chapter(page))[0]
    assert agrees("a … c", "a b c\n") and not agrees("a … c", "a b d")
    with pytest.raises(LookupError, match="nothing called gone"):
        named_source("docs/learn/microgpt.py#gone")
