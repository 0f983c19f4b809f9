"""Serves a folder on this machine, as a page with threads in WebAssembly needs it."""

from __future__ import annotations

import errno
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType

from tinygpt.core.errors import TinyGPTError

HOST = "127.0.0.1"
DEFAULT_PORT = 8017
PORTS_TO_TRY = 20  # from the wanted one on, where it is taken

# With these two a browser lets a page share memory among its workers ("cross-origin isolated").
ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
HASHED = "/_astro/"  # names that change with their contents


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Stated in full: the system's own table of types may lack them or differ.
    extensions_map = {  # noqa: RUF012
        "": "application/octet-stream",
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".ico": "image/x-icon",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json; charset=utf-8",
        ".mjs": "text/javascript; charset=utf-8",
        ".png": "image/png",
        ".py": "text/x-python; charset=utf-8",
        ".svg": "image/svg+xml",
        ".txt": "text/plain; charset=utf-8",
        ".wasm": "application/wasm",
        ".wgsl": "text/plain; charset=utf-8",
    }

    def __init__(self, *args: object, isolated: bool, **more: object) -> None:
        self.isolated = isolated
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def end_headers(self) -> None:
        for name, value in ISOLATION.items() if self.isolated else ():
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        fresh = "public, max-age=31536000, immutable" if self.path.startswith(HASHED) else "no-cache"
        self.send_header("Cache-Control", fresh)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal belongs to the user."""


class Server(ThreadingHTTPServer):
    allow_reuse_address = sys.platform != "win32"  # there it would let two servers have one port
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no news."""


class Site:
    """A folder being served while the `with` lasts; `url` says where. Port 0 is any free one."""

    def __init__(self, folder: Path, port: int = 0, isolated: bool = True) -> None:
        if not folder.is_dir():
            raise TinyGPTError(f"there is no folder {folder} to serve")
        self.server = listen(partial(Handler, directory=str(folder), isolated=isolated), port)
        self.url = f"http://{HOST}:{self.server.server_port}/"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Site:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def listen(handler: partial[Handler], port: int) -> Server:
    """On `port`, or on the next one that is free."""
    last = port + PORTS_TO_TRY if port else 1
    for candidate in range(port, last):
        try:
            return Server((HOST, candidate), handler)
        except OSError as fault:
            if fault.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise TinyGPTError(f"the ports from {port} to {last - 1} are all taken; name another one")
