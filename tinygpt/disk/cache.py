"""Where downloads are kept: `$TINYGPT_CACHE`, else `$XDG_CACHE_HOME/tinygpt`, else `~/.cache/tinygpt`."""

import os
import tempfile
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.files import replace


def cache_root() -> Path:
    if own := os.environ.get("TINYGPT_CACHE"):
        return Path(os.path.expanduser(own))
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(os.path.expanduser(xdg), "tinygpt")
    try:
        return Path.home() / ".cache" / "tinygpt"
    except RuntimeError:
        raise TinyGPTError("You have no home folder for the cache: set TINYGPT_CACHE to a folder.") from None


def cache_dir(*parts: str) -> Path:
    """That folder of the cache, created where missing."""
    folder = cache_root().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """A reader sees the old file or the whole new one, even when several processes write it at once."""
    partial: str | None = None
    try:
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        replace(partial, path)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    finally:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)


def unwritable(folder: Path, error: OSError) -> TinyGPTError:
    return TinyGPTError(
        f"Cannot write to the cache folder {folder} ({error.strerror or error}): "
        "set TINYGPT_CACHE to a folder you can write to."
    )
