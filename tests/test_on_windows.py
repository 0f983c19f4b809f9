"""As far as can be told without Windows: nothing is asked of the system that it does not have there."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygpt.disk import files
from tinygpt.disk.cache import cache_root
from tinygpt.engines import crew
from tinygpt.engines.runner import apart

# What only POSIX has is taken away once the libraries of others, which have their own ways, are loaded.
WITHOUT_POSIX = """
import asyncio, importlib, mmap, os, pkgutil, signal, sys, tempfile
import filelock, httpx, matplotlib.figure, numpy, rich, safetensors.numpy, starlette, typer, uvicorn
import tinygpt

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "_posixsubprocess"):
    sys.modules[name] = None
for owner, names in {
    os: "fork killpg getpgid setsid getuid geteuid sched_getaffinity sysconf statvfs mkfifo getloadavg uname",
    signal: "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGQUIT pthread_sigmask pthread_kill alarm setitimer",
    mmap: "MADV_HUGEPAGE MAP_PRIVATE MAP_ANONYMOUS",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
for module in pkgutil.walk_packages(tinygpt.__path__, "tinygpt."):
    if not module.name.endswith("__main__") and not module.name.startswith("tinygpt.reference"):
        importlib.import_module(module.name)

from tinygpt.cli import main
main()
"""


def test_training_asks_for_nothing_that_only_posix_has(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("All's well that ends well. " * 200)
    arguments = [
        "train",
        "--preset",
        "tiny",
        "--steps",
        "5",
        "--file",
        "text.txt",
        "--out",
        "run",
        "--engine",
        "native",
    ]
    environment = {**os.environ, "TINYGPT_CACHE": str(cache_root()), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", WITHOUT_POSIX, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Finished 5 steps" in done.stdout


@pytest.mark.parametrize("refusals", [0, 3])
def test_a_file_that_somebody_looks_at_is_replaced_a_moment_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusals: int
) -> None:
    asked, own = [], os.replace

    def scanned(source: Path, target: Path) -> None:
        asked.append(source)
        if len(asked) <= refusals:
            raise PermissionError("the process cannot access the file")
        own(source, target)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(files, "WAITS", (0.0,) * 5)
    monkeypatch.setattr(os, "replace", scanned)
    (tmp_path / "new").write_text("new")
    files.replace(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new" and len(asked) == refusals + 1


def test_a_file_that_stays_open_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError("the process cannot access the file")

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(files, "WAITS", (0.0,) * 5)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        files.replace(tmp_path / "new", tmp_path / "old")


def test_a_crew_is_waited_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock hears of Ctrl-C only when it has waited."""
    monkeypatch.setattr(crew, "WAIT", 0.001)
    parts: list[int] = []
    team = crew.Crew(2)
    team.run(lambda number: (time.sleep(0.05), parts.append(number)))
    team.close()
    assert sorted(parts) == [0, 1]


def test_ctrl_c_is_kept_from_a_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert apart() == {"start_new_session": True}
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    assert apart() == {"creationflags": 0x200}
