"""Serves the built page to this machine alone, as a page with threads in WebAssembly needs it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import TracebackType

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server

from tinygpt.core.errors import TinyGPTError
from tinygpt.serve.connections import Connections, Limits
from tinygpt.serve.headers import HEADERS_FILE, Rules, headers_for, read_rules

HOST = "127.0.0.1"
NAMES = [HOST, "localhost"]  # any other name that leads here was made to do so by somebody else
ADDRESSES = f"{HOST} is this machine alone, 0.0.0.0 all of its interfaces"
PORTS_TO_TRY = 20  # from the wanted one on, where it is taken

# With these two a browser lets a page share memory among its workers ("cross-origin isolated").
ISOLATION = ("Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy")

# Stated in full: the system's own table of types may lack them or differ.
TYPES = {
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
    ".webmanifest": "application/manifest+json; charset=utf-8",
    ".wgsl": "text/plain; charset=utf-8",
}


class Files(StaticFiles):
    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Content-Type"] = TYPES.get(Path(full_path).suffix, "application/octet-stream")
        return response


BUNDLED = ("tinygpt.store.bundled", "models")


class StatedHeaders:
    """Adds to each answer what the rules say of its path."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app = app
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                stated = {"Cache-Control": "no-cache"} | headers_for(self.rules, scope["path"])
                if message["status"] >= 400:
                    stated["Cache-Control"] = "no-store"
                MutableHeaders(scope=message).update(stated)
            await send(message)

        await self.app(scope, receive, send_with_headers)


def page_app(folder: Path, isolated: bool) -> Starlette:
    rules = read_rules((folder / HEADERS_FILE).read_text(encoding="utf-8"))
    if not isolated:
        rules = {path: {k: v for k, v in headers.items() if k not in ISOLATION} for path, headers in rules.items()}
    return Starlette(
        # The wheel has the bundled models once: not in the page's folder.
        routes=[
            Mount("/models", Files(directory=folder / "models", packages=[BUNDLED], check_dir=False)),
            Mount("/", Files(directory=folder, html=True)),
        ],
        middleware=[
            Middleware(StatedHeaders, rules=rules),
            Middleware(TrustedHostMiddleware, allowed_hosts=NAMES, www_redirect=False),
        ],
    )


def quiet_server(app: ASGIApp, limits: Limits | None = None) -> Server:
    """The terminal belongs to the user; nobody else hears of us."""
    limits = limits or Limits()
    connections = Connections(app, limits)
    settings = Config(
        connections,
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=limits.closing_s,
    )
    return Server(settings)


def start(thread: Thread) -> None:
    try:
        thread.start()
    except RuntimeError:  # there is no room for its stack
        raise MemoryError from None


@contextmanager
def running(server: Server, socket: socket.socket) -> Iterator[Thread]:
    """A server that runs in a thread of its own while the `with` lasts."""
    thread = Thread(target=server.run, args=([socket],), daemon=True)
    start(thread)
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()


class Site:
    """A folder being served while the `with` lasts; `url` says where. Port 0 is any free one."""

    def __init__(self, folder: Path, port: int = 0, isolated: bool = True, limits: Limits | None = None) -> None:
        if not (folder / HEADERS_FILE).is_file():
            raise TinyGPTError(f"there is no page in {folder} to serve; run: make play")
        server = quiet_server(page_app(folder, isolated), limits)
        self.socket = listen(port)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/"
        self.running = running(server, self.socket)

    def __enter__(self) -> Site:
        self.running.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running.__exit__(kind, fault, trace)


def listen(port: int, host: str = HOST) -> socket.socket:
    """On `port`, or on the next one that is free."""
    family, address = address_of(host)
    last = min(port + PORTS_TO_TRY, 65536) if port else 1
    for candidate in range(port, last):
        try:
            found = socket.create_server((address, candidate), family=family)
        except OSError as fault:
            if fault.errno == errno.EADDRNOTAVAIL:
                raise TinyGPTError(f"{host} is not an address of this machine; {ADDRESSES}") from None
            if fault.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            continue
        # Its connections inherit this. asyncio asks for it only of sockets that state their protocol, and these do not:
        # an answer's body waited for the client's acknowledgement of its head, which takes 40 ms.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
    raise TinyGPTError(f"the ports from {port} to {last - 1} are all taken; name another one")


def address_of(host: str) -> tuple[int, str]:
    """The kind of an address, and the address itself; a name that has several stands for the IPv4 one."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM) if host.strip() else []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise TinyGPTError(f"there is no address '{host}' to listen on; {ADDRESSES}")
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, str(address[0])


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine reaches it."""
    return ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
