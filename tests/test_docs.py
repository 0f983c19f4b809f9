"""Links in the docs lead somewhere: to files that exist, and where a link names a line, to the line that defines it.

python tests/test_docs.py     puts the right line numbers into all links
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")


def links(page: Path) -> Iterator[tuple[str, str]]:
    for text, address in LINK.findall(page.read_text(encoding="utf-8")):
        if not address.startswith(("http", "#", "mailto")):
            yield text, address


def defined_at(file: Path, name: str) -> int | None:
    """The first line that defines a name: a function, a class, a constant, in TypeScript also a method; or else the
    first that calls it. `Owner.name` is looked for after the line that defines its owner."""
    lines = file.read_text(encoding="utf-8").splitlines()
    owner, _, name = name.rpartition(".")
    first = (defined_at(file, owner) or 0) if owner else 0
    name = re.escape(name)
    patterns = [rf"\s*(export )?(async )?(def|class|function) {name}\b", rf"(export )?(const )?{name} = "]
    if file.suffix in (".ts", ".svelte"):
        patterns.append(rf"  (private |protected |override )*((async )?{name}\(|{name}: (async )?\()")
    if owner:
        patterns = ["|".join(patterns)]  # whatever comes first is the owner's
    for pattern in [*patterns, rf".*\b{name}\("]:
        for number, line in enumerate(lines[first:], start=first + 1):
            if re.match(pattern, line):
                return number
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for text, address in links(page):
        path, _, place = address.partition("#")
        file = page.parent / path
        if not file.exists():
            wrong.append(f"{address}: there is no such file")
        elif re.fullmatch(r"L\d+", place) and defined_at(file, text.strip("`")) != int(place[1:]):
            wrong.append(f"{address}: {text} is at line {defined_at(file, text.strip('`'))}; run python {__file__}")
    assert not wrong, "\n".join(wrong)


def with_lines(page: Path) -> str:
    def renumbered(match: re.Match[str]) -> str:
        text, address = match.groups()
        path, _, place = address.partition("#")
        line = defined_at(page.parent / path, text.strip("`")) if re.fullmatch(r"L\d+", place) else None
        return match.group(0) if line is None else f"[{text}]({path}#L{line})"

    return LINK.sub(renumbered, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(with_lines(one), encoding="utf-8")
    sys.exit(0)
