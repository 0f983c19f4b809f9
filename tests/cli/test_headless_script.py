"""scripts/headless-gpu.sh where there is no NVIDIA driver, and with a stand-in for one."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "headless-gpu.sh"
DRIVER = "libEGL_nvidia.so.0"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def script(*given: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": sys.executable} | variables
    return subprocess.run([SCRIPT, *map(str, given)], env=environment, capture_output=True, text=True)


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    """As after `collect`, less the wheels and packages."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    (folder / "requirements.txt").write_text("")
    return folder


def has_driver() -> bool:
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="there is an NVIDIA driver here")
def test_without_the_driver_it_says_so_and_sets_nothing(collected: Path) -> None:
    done = script("activate", collected)
    assert done.returncode == 1 and done.stdout == ""
    assert f"{DRIVER} is not found: there is no NVIDIA driver here" in done.stderr


def test_with_a_driver_it_prints_the_variables(collected: Path) -> None:
    maps = Path("/proc/self/maps").read_text().split()
    libc = next(path for path in maps if "/libc.so" in path or "/libc-" in path or "/ld-musl" in path)
    (collected / DRIVER).symlink_to(libc)
    for _ in range(2):  # the second time everything is unpacked already
        done = script("activate", collected, LD_LIBRARY_PATH=str(collected), PYTHONPATH="mine")
        assert done.returncode == 0 and done.stderr == ""
        names = dict(word.split("=", 1) for word in shlex.split(done.stdout) if word != "export")
        assert DRIVER in Path(names["VK_DRIVER_FILES"]).read_text()
        assert names["VK_ICD_FILENAMES"] == names["VK_DRIVER_FILES"]
        assert names["LD_LIBRARY_PATH"] == str(collected)
        assert names["PYTHONPATH"] == f"{collected}/unpacked/wheels:mine"


@pytest.mark.parametrize(
    "given", [[], ["dance"], ["activate"], ["activate", "a", "b"], ["collect"], ["collect", "--all", "a"]]
)
def test_bad_usage(given: list[str]) -> None:
    done = script(*given)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("usage: headless-gpu.sh")


def test_a_folder_that_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    done = script("activate", tmp_path)
    assert done.returncode == 1 and "fill it with 'collect' first" in done.stderr
    (tmp_path / "notes.txt").write_text("mine")
    assert script("collect", tmp_path).returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
