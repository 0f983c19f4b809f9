"""The built site, page by page: no link is dead, nothing is missing, each page can be reached and is small."""

from __future__ import annotations

import gzip
import json
import posixpath
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tinygpt.site.build import ROOT, WEB, build
from tinygpt.site.sources import pages as pages_of_docs

pytestmark = pytest.mark.xdist_group("page")
SCRIPT = re.compile(r"""(?:from|import)\s*["'](\.[^"']+)["']""")
VIEWS = re.compile(r"(home|play|train|text|inside|models|verify|measure|share|model|class|lesson)([?=].*)?")
LABS = re.findall(r'lab: "(\w+)"', (WEB / "src" / "lab" / "labs.ts").read_text(encoding="utf-8"))
MOST = 250_000  # bytes of a chapter, compressed, with all it loads


class Document(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []  # scripts, styles, fonts
        self.pictures: list[str] = []
        self.figures: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        if "data-figure" in given:
            self.figures.append(given["data-figure"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "img":
            self.pictures.append(given["src"])
        elif tag == "script" and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given["rel"] in ("stylesheet", "preload", "icon"):
            self.loaded.append(given["href"])


@cache
def document(file: Path) -> Document:
    return Document(file.read_text(encoding="utf-8"))


def all_pages(site: Path) -> list[Path]:
    return [file for file in site.rglob("index.html") if "single" not in file.parts]


def target(page: Path, address: str, site: Path) -> Path:
    """The file that an address on a page leads to, on a host that knows nothing but files."""
    path = posixpath.join(page.parent.relative_to(site).as_posix(), unquote(urlsplit(address).path))
    file = site / posixpath.normpath(path)
    return file / "index.html" if file.is_dir() else file


def faults(page: Path, site: Path) -> list[str]:
    found, seen = [], document(page)
    for address in [*seen.links, *seen.loaded, *seen.pictures]:
        if address.startswith(("http:", "https:", "mailto:")):
            continue
        file, place = target(page, address, site), urlsplit(address).fragment
        if address.startswith("/") or not file.is_file():
            found.append(f"{address} leads nowhere")
        elif place and file == site / "index.html":
            found += [] if VIEWS.fullmatch(place) else [f"{address} is no view of the page"]
        elif place and file == site / "lab" / "index.html":
            found += [] if place.split("=")[0] in ("list", *LABS) else [f"{address} is no lab"]
        elif place and place not in document(file).ids:
            found.append(f"{address}: that page has no such place")
    return [f"{page.relative_to(site)}: {fault}" for fault in found]


def test_no_link_is_dead_and_nothing_is_missing() -> None:
    site = build()
    found = [fault for page in all_pages(site) for fault in faults(page, site)]
    assert not found, "\n".join(found)


def test_a_dead_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "learn" / "one" / "index.html"
    page.parent.mkdir(parents=True)
    (tmp_path / "index.html").write_text("")
    page.write_text('<h2 id=a></h2><a href="#a"></a><a href="#b"></a><a href="../two/"></a><a href="../../#play"></a>')
    assert [fault.split(": ", 1)[1] for fault in faults(page, tmp_path)] == [
        "#b: that page has no such place",
        "../two/ leads nowhere",
    ]


def test_every_page_of_the_docs_can_be_reached_from_the_first() -> None:
    site = build()
    reached, waiting = set(), [site / "index.html"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".html":
            reached.add(page)
            waiting += [target(page, link, site) for link in document(page).links if "://" not in link]
    assert set(all_pages(site)) <= reached
    titles = {
        re.search("<h1[^>]*>(.*?)</h1>", page.read_text(), re.S)[1] for page in reached if page != site / "index.html"
    }  # type: ignore[index]
    for page in pages_of_docs():
        title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").replace("'", "'")
        assert title in titles, f"{page.relative_to(ROOT)} is not on the site"


def weight(page: Path, site: Path) -> int:
    """With styles, scripts and what those import, fonts, pictures, and the figures that move."""
    seen = document(page)
    files, waiting = set(), [page, *(target(page, address, site) for address in [*seen.loaded, *seen.pictures])]
    waiting += [file for name in seen.figures for file in (site / "_astro").glob(f"{name}.*")]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            if file.suffix == ".js":
                waiting += [file.parent / name for name in SCRIPT.findall(file.read_text(encoding="utf-8"))]
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def test_a_chapter_is_small_with_everything_it_loads() -> None:
    site = build()
    weights = {page.parent.name: weight(page, site) for page in (site / "learn").glob("*/index.html")}
    assert len(weights) == 20 and min(weights.values()) > 100_000  # the two fonts alone
    assert {name: size for name, size in weights.items() if size > MOST} == {}


def test_the_trail_is_whole_without_javascript() -> None:
    """The text, its questions and their explanations are in the document."""
    site = build()
    for page in (site / "learn").glob("*/index.html"):
        text = page.read_text(encoding="utf-8")
        assert "<details data-answer=" in text and "<b>Question.</b>" in text and "minutes. You need:" in text


def test_what_search_goes_through_has_every_page() -> None:
    site = build()
    sections = json.loads(gzip.decompress((site / "search.json.gz").read_bytes()))
    assert all(target(site / "index.html", section["address"], site).is_file() for section in sections)
    found = {section["address"].split("#")[0] for section in sections}
    assert {
        f"{place}/{page.parent.name}/"
        for place in ("learn", "reference")
        for page in (site / place).glob("*/index.html")
    } <= found
