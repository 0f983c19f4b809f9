"""What the page takes for its labs: sources to edit, the edits and mutants that there are, and Python's rooms."""

from __future__ import annotations

from pathlib import Path

from tinygpt.engines.shipped import stripped
from tinygpt.labs.derive.check import LABS
from tinygpt.labs.wgsl.check import LABS as KERNEL_LABS

PACKAGE = Path(__file__).parents[1]
# What a room needs beside core: the specification, its player and what checks with them.
ROOMS = (
    "labs/*.py",
    "labs/arrays/*.py",
    "labs/derive/*.py",
    "labs/wgsl/*.py",
    "kernels/*.py",
    "engines/__init__.py",
    "engines/spec_player.py",
    "bench/__init__.py",
    "bench/gradients.py",
    "inside/__init__.py",
    "inside/parting.py",
)
NOT_THERE = ("kernels/build.py", "kernels/wasm.py", "labs/shipped.py")  # they need a machine
# What can be edited, by what it is.
SOURCES = (
    ("The model", ("core/models/*.py",)),
    ("Ops, declared", ("core/ops/*.py",)),
    ("Passes", ("core/passes/*.py",)),
    ("Optimizers", ("core/optimizers/*.py",)),
    ("Presets", ("core/presets.py",)),
    ("Kernels in NumPy", ("kernels/*.py",)),
    ("Kernels for a GPU", ("kernels/*.wgsl",)),
)


def matching(patterns: tuple[str, ...]) -> list[str]:
    found = [path.relative_to(PACKAGE).as_posix() for pattern in patterns for path in sorted(PACKAGE.glob(pattern))]
    return [path for path in found if path not in NOT_THERE and not path.endswith("__init__.py")]


def first_sentence(source: str, path: str) -> str:
    """What a file says of itself."""
    head = source.strip().splitlines()[0] if source.strip() else ""
    return head.removeprefix("//").strip(' "') if path.endswith((".py", ".wgsl")) else ""


def room_files() -> dict[str, str]:
    """By path, beside those of core."""
    paths = [path for pattern in ROOMS for path in sorted(PACKAGE.glob(pattern))]
    named = {path.relative_to(PACKAGE).as_posix(): path for path in paths}
    return {name: stripped(path.read_text(encoding="utf-8")) for name, path in named.items() if name not in NOT_THERE}


def lab_facts() -> dict[str, object]:
    groups = []
    for title, patterns in SOURCES:
        rows = []
        for path in matching(patterns):
            text = (PACKAGE / path).read_text(encoding="utf-8")
            rows.append({"path": path, "about": first_sentence(text, path), "text": text})
        groups.append({"title": title, "files": rows})
    derive = [dict(lab.facts(), solution=lab.solution) for lab in LABS]
    write = [lab.facts((PACKAGE / "kernels" / lab.file).read_text(encoding="utf-8")) for lab in KERNEL_LABS]
    patched = {"ready": patches("ready"), "mutants": patches("mutants")}
    return {"groups": groups, **patched, "derive": derive, "write": write}


def patches(folder: str) -> dict[str, str]:
    return {
        path.stem: path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "edits" / folder).glob("*.patch"))
    }
