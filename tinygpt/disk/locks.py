"""One writer at a time, by a lock that the system takes back from a process that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tinygpt.core.errors import TinyGPTError


@contextmanager
def only_writer(lock_file: Path, of: Path) -> Iterator[None]:
    """Within the block no other process is here; where one is already, a sentence about what it writes."""
    from filelock import FileLock, Timeout

    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise TinyGPTError(f"another process is training {of}: wait until it ends, or stop it with Ctrl-C") from None
    except OSError as fault:
        raise TinyGPTError(f"cannot write {lock_file}: {fault.strerror or fault}") from fault
    try:
        yield
    finally:
        with suppress(OSError):  # Windows deletes no open file
            lock_file.unlink()
        lock.release()
