"""Console blocks of README and docs: each runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lab.learn.consoles import NEEDS, ROOT, agrees, consoles, needs_of, pages, run
from tinygpt.cli.app import app

PAGES = [page for page in pages() if any(consoles(page))]
LONG = {"minutes", "vulkan"}
PLAIN = re.compile(r"^```\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_a_page_says(page: Path, tmp_path: Path) -> None:
    assert not (wrong := run(page, tmp_path, ("Ctrl-C",))), "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("page", [page for page in PAGES if LONG & needs_of(page)], ids=lambda page: page.stem)
def test_commands_that_take_longer_do_so_too(page: Path, tmp_path: Path) -> None:
    from tinygpt.engines.gpu import all_adapters

    there = ("Ctrl-C", "minutes", "vulkan") if all_adapters() else ("Ctrl-C", "minutes")
    assert not (wrong := run(page, tmp_path, there)), "\n\n".join(wrong)


def test_a_page_that_says_something_else_is_caught() -> None:
    assert agrees("run  tiny  2,000\nloss …\ntook 0:15", "run   tiny  2,010\nloss 3\ntook 1:15\n")
    assert not agrees("run  tiny  2,000", "run  tiny  2,100")
    assert not agrees("run  tiny", "run  small") and not agrees("a\nb", "a\nx\nb") and agrees("a\n…\nb", "a\nx\ny\nb")
    assert agrees("weights sha256 …", "weights sha256 12ab…") and agrees("a …  b", "a b")
    assert agrees("engine  native, 512-bit vectors", "engine  native, 256-bit vectors")


def named_commands(text: str) -> list[list[str]]:
    """`tinygpt` and what follows it, in blocks of commands that state no output."""
    lines = [line for block in PLAIN.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    found = [re.search(r"(?:^|[;&|(] ?)(?:\w+=\S+ )*tinygpt (.*)", line) for line in lines]
    return [re.split(r"\s#\s|[|;&>]", match[1])[0].split() for match in found if match]


def test_marks_are_known_to_the_site() -> None:
    stated = (ROOT / "web" / "src" / "docs" / "needs.ts").read_text(encoding="utf-8")
    assert set(re.findall(r'^  "?([\w-]+)"?: "', stated, re.M)) == set(NEEDS)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_flags_that_a_page_names_exist(page: Path) -> None:
    wrong = []
    for words in named_commands(page.read_text(encoding="utf-8")):
        command: Any = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if hasattr(command, "commands") and words and re.fullmatch(r"[a-z]+", words[0]):
            wrong.append(f"there is no command {words[0]}")
        known = {
            "--help",
            "-h",
            "--edit",
            *(name for one in command.params for name in [*one.opts, *one.secondary_opts]),
        }
        wrong += [
            f"{command.name} {word}" for word in words if word.startswith("-") and word.split("=")[0] not in known
        ]
    assert not wrong, "\n".join(wrong)
