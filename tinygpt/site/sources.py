"""Which files of the repository the site shows: those that its pages link to, and those in folders they link to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)|source=([^\s#]+)")
SITE_PAGES = ROOT / "web" / "src" / "pages"  # a link to one of these leads to the page itself
TEXTS = (".py", ".pyi", ".cpp", ".h", ".wgsl", ".ts", ".svelte", ".json", ".toml", ".ipynb", "")  # "" is _headers


def pages() -> list[Path]:
    return [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def shown_sources() -> list[str]:
    """Their paths, folders among them, in order."""
    found: set[str] = set()
    for page in pages():
        for target in targets(page):
            files = [target, *target.iterdir()] if target.is_dir() else [target]
            found |= {file.relative_to(ROOT).as_posix() for file in files if file == target or is_text(file)}
    return sorted(found)


def targets(page: Path) -> Iterator[Path]:
    for link, source in LINK.findall(page.read_text(encoding="utf-8")):
        target = (ROOT / source if source else page.parent / link).resolve()
        if (
            target != ROOT
            and SITE_PAGES not in target.parents
            and target.exists()
            and (target.is_dir() or is_text(target))
        ):
            yield target


def is_text(file: Path) -> bool:
    return file.is_file() and file.suffix in TEXTS
