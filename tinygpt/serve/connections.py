"""How many clients may be connected, and how long they may keep a server waiting: what uvicorn has no setting for.

uvicorn speaks HTTP, and ends connections that are idle between two requests. A `Connection` passes everything on to it
and watches the clock meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
FULL = "this server has as many connections as it takes: try again in a while"


FILES = 64  # that a process keeps open for all but its connections


def room_for(connections: int) -> int:
    """That many connections, or as many as this process may open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if most == resource.RLIM_INFINITY else max(1, min(connections, most - FILES))


class Limits(NamedTuple):
    connections: int = 256
    headers_s: float = 10.0  # until the headers of a request are there
    stalled_s: float = 60.0  # without the client taking a byte of what is sent; a slow one may take for ever
    closing_s: int = 1  # for answers under way when the server is closed


class Connections:
    """The application, as uvicorn is given it, and all connections to it by the address of the client."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.most = room_for(limits.connections)
        self.open: dict[Any, Connection] = {}

    def protocol(self, **given: Any) -> Connection:
        """What uvicorn asks for when a client connects."""
        return Connection(self, H11Protocol(**given))

    def enter(self, connection: Connection) -> None:
        """Where there are too many, the first that asks for nothing makes room."""
        if len(self.open) >= self.most:
            idle = next((other for other in self.open.values() if not other.busy), None)
            if idle is not None:
                idle.give_up()
        self.open[connection.client] = connection

    def leave(self, connection: Connection) -> None:
        """It is closed, or about to be."""
        if self.open.get(connection.client) is connection:
            del self.open[connection.client]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = self.open.get(scope["client"])
        if connection is not None:
            connection.headers_came()
        try:
            await (full if len(self.open) > self.most else self.app)(scope, receive, send)
        finally:
            if connection is not None:
                connection.busy = False


async def full(scope: Scope, receive: Receive, send: Send) -> None:
    error = {"message": FULL, "type": "server_error", "param": None, "code": None}
    await JSONResponse({"error": error}, 503, {"Retry-After": "1"})(scope, receive, send)


class Alarm:
    """Calls something after a while, unless it is cancelled before."""

    def __init__(self) -> None:
        self.timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        self.cancel()
        self.timer = asyncio.get_running_loop().call_later(seconds, call, *arguments)

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Connection(asyncio.Protocol):
    def __init__(self, all: Connections, http: H11Protocol) -> None:
        self.all, self.http = all, http
        self.busy = False  # a request is being answered
        self.begun = False  # some of the next request has come
        self.headers_late, self.reader_stalled = Alarm(), Alarm()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.client = tuple(transport.get_extra_info("peername") or ())[:2]
        transport.set_write_buffer_limits(0)  # so that we hear of all that a client does not take at once
        self.all.enter(self)
        self.await_headers()
        self.http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self.busy:
            self.begun = True
            self.await_headers()
        self.http.data_received(data)

    def eof_received(self) -> None:
        self.http.eof_received()

    def connection_lost(self, fault: Exception | None) -> None:
        self.headers_late.cancel()
        self.reader_stalled.cancel()
        self.all.leave(self)
        self.http.connection_lost(fault)

    def pause_writing(self) -> None:
        self.await_reader()
        self.http.pause_writing()

    def resume_writing(self) -> None:
        self.reader_stalled.cancel()
        self.http.resume_writing()

    def await_headers(self) -> None:
        if self.headers_late.timer is None:
            self.headers_late.set(self.all.limits.headers_s, self.give_up)

    def headers_came(self) -> None:
        self.headers_late.cancel()
        self.busy, self.begun = True, False

    def give_up(self) -> None:
        self.all.leave(self)
        if self.begun:
            self.transport.write(LATE)
        self.transport.close()

    def await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self.reader_stalled.set(self.all.limits.stalled_s, self.check_reader, left)

    def check_reader(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self.await_reader()
        else:
            self.transport.abort()
