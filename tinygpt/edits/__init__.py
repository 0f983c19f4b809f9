"""Edits of the step: a patch of TinyGPT's own sources, applied to a copy of the package, which then runs in its place.

The copy says who made it (core/edited.py), and so do the model files, capsules and versions that come of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.disk.cache import cache_dir
from tinygpt.disk.files import decoded, faults_of, read_regular
from tinygpt.edits.patch import Hunk, parsed, patched

PACKAGE = Path(__file__).parents[1]
READY = Path(__file__).parent / "ready"
MUTANTS = Path(__file__).parent / "mutants"  # faults to be found: docs/learn/19-find-the-mutant.md
LARGEST = 1 << 20  # bytes of a patch
SOURCES = (".py", ".pyi", ".cpp", ".h", ".wgsl")
LINKED = ("page", "store/bundled/models")  # large, and no source: the copy uses those of the package
MARK = "core/edited.py"


class Edit(NamedTuple):
    """A patch: `about` is what it says before its first file."""

    name: str
    about: str
    text: str
    files: dict[str, list[Hunk]]  # by their path in the package
    ready: bool

    @property
    def label(self) -> str:
        return f"{self.name} {hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


def ready_names() -> list[str]:
    return sorted(path.stem for path in READY.glob("*.patch"))


def mutant_names() -> list[str]:
    return sorted(path.stem for path in MUTANTS.glob("*.patch"))


def read_edit(name: str) -> Edit:
    """A file, or one that comes with the package, by its name."""
    path = Path(name)
    ready = not path.suffix and not path.exists()
    if ready and name not in ready_names() + mutant_names():
        raise TinyGPTError(f"there is no edit '{name}'{instead(name, ready_names())}; or name the file of a patch")
    path = (MUTANTS if name in mutant_names() else READY) / f"{name}.patch" if ready else path
    with faults_of(path, "read"):
        text = decoded(read_regular(path, LARGEST), "the patch").replace("\r\n", "\n")
        about, files = parsed(text)
        for file in files:
            require_source(file)
    return Edit(path.stem, about, text, files, ready)


def require_source(file: str) -> None:
    """A patch changes sources of the package, and nothing else on this machine."""
    place = (PACKAGE / file).resolve()
    if not place.is_relative_to(PACKAGE) or place.suffix not in SOURCES or not place.is_file() or file == MARK:
        raise TinyGPTError(f"it changes {file}, which is no source of TinyGPT's; an edit is of files in tinygpt/")


def edited_package(edit: Edit) -> Path:
    """A folder with the package as the edit makes it, to be imported in place of this one. Made once."""
    sources = sorted(path for path in PACKAGE.rglob("*") if path.suffix in SOURCES and not in_linked(path))
    digest = hashlib.sha256(edit.label.encode())
    for path in sources:
        digest.update(path.read_bytes())
    folder = cache_dir("edits") / digest.hexdigest()[:24]
    if folder.exists():
        return folder
    changed = {
        file: patched((PACKAGE / file).read_text(encoding="utf-8"), hunks, file) for file, hunks in edit.files.items()
    }
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
    try:
        write_copy(partial / PACKAGE.name, edit, changed)
        partial.rename(folder)
    except OSError:
        if not folder.exists():  # another process may have made it meanwhile
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def in_linked(path: Path) -> bool:
    return any(path.is_relative_to(PACKAGE / folder) for folder in LINKED)


def write_copy(to: Path, edit: Edit, changed: dict[str, str]) -> None:
    left_out = [str(PACKAGE / folder) for folder in LINKED]

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__pycache__" or os.path.join(folder, name) in left_out]

    shutil.copytree(PACKAGE, to, ignore=ignored)
    for folder in LINKED:
        if (PACKAGE / folder).is_dir():
            os.symlink(PACKAGE / folder, to / folder, target_is_directory=True)
    for file, text in changed.items():
        (to / file).write_text(text, encoding="utf-8")
    mark = (to / MARK).read_text(encoding="utf-8")
    (to / MARK).write_text(mark.replace('EDIT = ""', f"EDIT = {edit.label!r}", 1), encoding="utf-8")
