"""What this process may use of its machine: cores and memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.cpu.lowering import MAX_THREADS

ROOT = Path("/")


class Controller(NamedTuple):
    """Where a version of Linux's cgroups says what a group's memory may be, is, and could be without its cache."""

    folder: str
    limit: str
    usage: str
    cache: tuple[str, ...]  # rows of memory.stat


UNIFIED = Controller("sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file"))
LEGACY = Controller(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int | None, most: int = MAX_THREADS) -> None:
    if threads is not None and not 1 <= threads <= most:
        raise TinyGPTError(f"the number of threads must be from 1 to {most}, not {threads}")


def check_memory(needed: int) -> None:
    available = available_memory()
    if available is not None and needed > available:
        raise TinyGPTError(
            f"this run needs {needed / 2**30:.1f} GiB of memory, but {available / 2**30:.1f} GiB are available; "
            f"use a smaller preset, batch or ctx"
        )


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that can be had without swapping or being killed, where the system says so."""
    rows = numbers(root / "proc/meminfo")
    known = [1024 * rows["MemAvailable:"]] if "MemAvailable:" in rows else []
    known += [room for group, controller in memory_groups(root) if (room := room_in(group, controller)) is not None]
    return min(known) if known else None


def memory_groups(root: Path) -> Iterator[tuple[Path, Controller]]:
    """The process's own group and all that it lies in: each has a limit of its own."""
    for line in read(root / "proc/self/cgroup").splitlines():
        number, controllers, name = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        controller = UNIFIED if number == "0" else LEGACY
        top = root / controller.folder
        group = top / name.lstrip("/")
        for folder in (group, *group.parents):
            yield folder, controller
            if folder == top:
                break


def room_in(group: Path, controller: Controller) -> int | None:
    """What a group may still take, its cache given up; None where it has no limit."""
    limit, usage = read(group / controller.limit).strip(), read(group / controller.usage).strip()
    if not limit.isdecimal() or not usage.isdecimal():
        return None
    rows = numbers(group / "memory.stat")
    used = int(usage) - sum(rows.get(name, 0) for name in controller.cache)
    return max(0, int(limit) - max(0, used))


def numbers(path: Path) -> dict[str, int]:
    """Rows of a name and a number."""
    fields = [line.split() for line in read(path).splitlines()]
    return {row[0]: int(row[1]) for row in fields if len(row) >= 2 and row[1].isdecimal()}


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
