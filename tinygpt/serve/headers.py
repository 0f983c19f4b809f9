"""What the page is served with, stated once: in web/public/_headers, which static hosts read as we do.

A line without indentation is a pattern of paths; below it stand the headers of all answers that match.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from html.parser import HTMLParser

HEADERS_FILE = "_headers"
DIRECTIVES = {"script": "script-src 'self'", "style": "style-src 'self'"}  # where the hashes of a tag's contents belong

Rules = dict[str, dict[str, str]]  # headers by pattern


def read_rules(text: str) -> Rules:
    rules: Rules = {}
    headers: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        if line[0].isspace():
            name, _, value = line.strip().partition(": ")
            headers[name] = value
        else:
            headers = rules[line.strip()] = {}
    return rules


def headers_for(rules: Rules, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pattern, headers in rules.items():
        if fnmatchcase(path, pattern):
            found |= headers
    return found


def allow_inline(text: str, pages: Iterable[str]) -> str:
    """The file `_headers` with a policy that lets run what these pages hold inside themselves, and nothing else."""
    found = InlineContents()
    for page in pages:
        found.feed(page)
    for tag, directive in DIRECTIVES.items():
        hashes = dict.fromkeys(digest(content) for held_by, content in found.contents if held_by == tag)
        text = text.replace(directive, " ".join([directive, *hashes]))
    return text


def digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


class InlineContents(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.contents: list[tuple[str, str]] = []  # by tag
        self.inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in DIRECTIVES and "src" not in dict(attributes):
            self.inside = tag
            self.contents.append((tag, ""))

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.contents[-1] = (self.inside, self.contents[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""
