"""The wheel, in an environment that has what it declares to need and nothing else: no checkout, no PyTorch, no Node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tinygpt.disk.cache import cache_root
from tinygpt.site.build import ROOT, build
from tinygpt.store.bundled import named

ELSEWHERE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # the checkout is not in sight
pytestmark = pytest.mark.xdist_group("wheel")

MOST_BYTES = 30_000_000  # of the wheel
PACKED = ("tinygpt", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of the environment."""
    folder = tmp_path_factory.mktemp("wheel")
    make_wheel(folder / "source", folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.endswith(".tinygpt")]
    assert sorted(Path(name).stem for name in names) == sorted(named())  # each once
    pip("--python", programs / "python", "install", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "venv" / "lib").glob("*/site-packages")
    (own,) = distributions(path=[str(packages)])
    for name in needed(own):
        lend(name, packages)
    return programs


def make_wheel(source: Path, to: Path) -> None:
    """As `make wheel` does, of a copy: what an earlier one left in build/ is not packed."""
    build()
    source.mkdir()
    for name in PACKED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", to, source)


def pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-P", "-m", "pip", "--quiet", *arguments], env=ELSEWHERE, check=True)


def needed(package: Distribution) -> set[str]:
    """What a package needs, without extras, and what that needs."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for text in waiting.pop().requires or []:
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and requirement.name not in found:
                found.add(requirement.name)
                waiting.append(distribution(requirement.name))
    return found


def lend(name: str, packages: Path) -> None:
    """An installed package's files, by links."""
    owner = distribution(name)
    for top in {file.parts[0] for file in owner.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        if not (packages / top).exists():
            (packages / top).symlink_to(owner.locate_file(top))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home without anything; compiled kernels are taken from the cache."""
    return {**ELSEWHERE, "TINYGPT_CACHE": str(cache_root()), "HOME": str(tmp_path)}


@pytest.fixture
def served(installed: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address that `tinygpt play` prints."""
    command = [installed / "tinygpt", "play", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.partition("TinyGPT is at ")[2].split()[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_the_wheel_trains_and_writes_without_a_checkout(
    installed: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("All's well that ends well. " * 200)

    def tinygpt(*arguments: str) -> str:
        command = [installed / "tinygpt", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = tinygpt("train", "--preset", "tiny", "--steps", "5", "--file", "text.txt", "--out", "run")
    assert "native C++" in said and "Finished 5 steps" in said
    assert tinygpt("sample", "run", "--prompt", "All", "--tokens", "10").startswith("All")
    assert (
        "look.html" in tinygpt("look", "run", "--text", "All's well")
        and (tmp_path / "look.html").stat().st_size > 30_000
    )


def test_the_wheel_serves_the_page(served: str) -> None:
    with urlopen(served) as answer:
        assert answer.status == 200 and b"TinyGPT" in answer.read()
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    with urlopen(f"{served}kernels/relaxed-threads.wasm") as answer:
        assert answer.read(4) == b"\0asm"
    with urlopen(f"{served}models/addition.tinygpt") as answer:
        assert answer.read(4) == b"TGPT"
