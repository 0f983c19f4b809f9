"""Writing what survives a crash and a power cut: a file's name always holds a whole file, old or new."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.files import replace

STALE_SECONDS = 3600  # a partial file untouched for so long belongs to a writer that was killed


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file in the target's folder to write to; it becomes the target when the block ends well.

    The target gets the rights that any new file gets, whatever those of the one that was written are.
    """
    target = Path(os.path.realpath(path))  # through a link, not over it
    if target.is_dir():
        raise TinyGPTError("this is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise TinyGPTError(f"there is no folder {target.parent}")
    remove_stale(target)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.touch(exist_ok=False)
        rights = partial.stat().st_mode
        yield partial
        sync(partial)
        partial.chmod(rights)
        replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def make_folder(path: Path) -> None:
    """`mkdir -p`, which a power cut does not undo."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in made:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk. Not every system can do that."""
    with suppress(OSError):
        sync(path)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(target: Path, after: float = STALE_SECONDS) -> None:
    """Partial files of this target untouched for `after` seconds; whoever keeps other writers out may say 0."""
    prefix = f".{target.name}."
    for sibling in target.parent.iterdir():
        if sibling.name.startswith(prefix) and sibling.name.endswith(".partial"):
            with suppress(OSError):
                if time.time() - sibling.stat().st_mtime >= after:
                    sibling.unlink()
