"""Imports point one way: a module imports rooms that come before its own, so what it needs can be read first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# In the order data passes them; docs/architecture.md says what is in each. A folder is a room, and in core a file is.
ROOMS = """
core.edited core.errors core.settings core.kinds core.rng core.config core.names core.text core.wording
core.ops core.optimizers core.models core.presets core.corpus core.passes core.plan
core.engine core.write core.tasks core.train core.look core.advice core.file core.capsule core.hub core.tab
terminal disk edits kernels engines data store plots reference inside jobs sweeps bench labs serve site api cli lab
""".split()  # noqa: SIM905
PACKAGE = "tinygpt"  # its own file has the version, which anybody may import


def modules() -> dict[str, Path]:
    found = {}
    for top in (PACKAGE, "lab"):
        for file in (ROOT / top).rglob("*.py"):
            if "page" not in file.relative_to(ROOT).parts[:2]:
                parts = file.relative_to(ROOT).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()


def room_of(module: str) -> str:
    parts = module.split(".")
    if parts[0] == "lab":
        return "lab"
    return ".".join(parts[1:3]) if parts[1:2] == ["core"] else "".join(parts[1:2])


def imported(file: Path) -> Iterator[str]:
    """What a module imports when it is imported itself: neither for types alone nor inside a function."""
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_for_types(node):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        waiting += ast.iter_child_nodes(node)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_module_is_in_a_room_and_every_room_has_a_module() -> None:
    rooms = {room_of(module) for module in MODULES} - {"", "core", "__main__"}
    assert rooms == set(ROOMS) and len(ROOMS) == len(set(ROOMS))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_before_it(room: str) -> None:
    before = ROOMS[: ROOMS.index(room) + 1]
    wrong = [
        f"{module} imports {name}"
        for module, file in MODULES.items()
        if room_of(module) == room
        for name in imported(file)
        if name.split(".")[0] in (PACKAGE, "lab") and name != PACKAGE and room_of(name) not in before
    ]
    assert not wrong


def test_no_class_derives_from_one_that_derives_from_another_of_ours() -> None:
    """Reading a call should not mean looking for the class that answers it."""
    bases: dict[str, list[str]] = {}
    for file in MODULES.values():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]

    def depth(name: str) -> int:
        return 1 + max([depth(base) for base in bases[name] if base in bases], default=0)

    assert not {name: depth(name) for name in bases if depth(name) > 2}
