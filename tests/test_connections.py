"""Clients that keep a server waiting, and more of them than it takes."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tinygpt.serve.connections import Limits
from tinygpt.serve.server import HOST, listen, quiet_server, running

PATIENCE = 60  # seconds, on a busy machine
CHUNK = 1 << 20


class Door:
    """An application whose answers wait until it is opened."""

    def __init__(self) -> None:
        self.opened, self.waiting = Event(), 0
        self.ended, self.sent = Event(), 0  # the endless one, and its chunks

    async def at_once(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def wait(self, request: Request) -> Response:
        self.waiting += 1
        while not self.opened.is_set():
            await asyncio.sleep(0.01)
        return PlainTextResponse("opened")

    async def endless(self, request: Request) -> Response:
        async def chunks() -> Any:
            try:
                while True:
                    yield bytes(CHUNK)
                    self.sent += 1
                    await asyncio.sleep(0)
            finally:
                self.ended.set()

        return StreamingResponse(chunks())


@contextmanager
def serving(**limits: Any) -> Iterator[tuple[Door, int]]:
    door = Door()
    app = Starlette(
        routes=[Route("/", door.at_once), Route("/wait", door.wait), Route("/endless", door.endless)],
    )
    with listen(0) as bound, running(quiet_server(app, Limits(**limits)), bound):
        yield door, bound.getsockname()[1]
        door.opened.set()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection((HOST, port), timeout=PATIENCE)
    connection.sendall(sent)
    return connection


def get(path: str = "/", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


LAST = "Connection: close\r\n"


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(("begun", "answered"), [(b"", b""), (b"GET / HT", b"HTTP/1.1 408 ")])
def test_headers_that_do_not_come_are_given_up(begun: bytes, answered: bytes) -> None:
    with serving(headers_s=0.1) as (_, port), connect(port, begun) as slow:
        assert all_of(slow).startswith(answered)


def test_headers_of_a_second_request_are_awaited_no_longer_than_those_of_the_first() -> None:
    with serving(headers_s=0.5) as (_, port), connect(port, get()) as slow:
        while not slow.recv(65536).endswith(b"ok"):
            pass
        slow.sendall(b"GET / HT")
        assert all_of(slow).startswith(b"HTTP/1.1 408 ")


def test_headers_that_trickle_are_given_up() -> None:
    with serving(headers_s=0.3) as (_, port), connect(port, get()[:-2]) as slow:
        slow.settimeout(0.05)
        while True:
            try:
                slow.sendall(b"X: y\r\n")
                if slow.recv(12):
                    break
            except TimeoutError:
                continue
            except OSError:  # the connection is closed and says so this way
                break


def test_an_answer_takes_as_long_as_it_takes() -> None:
    """Neither of the limits is one for a whole request."""
    with serving(headers_s=0.5, stalled_s=0.1) as (door, port), connect(port, get("/wait", LAST)) as patient:
        patient.settimeout(0.7)
        with pytest.raises(TimeoutError):
            patient.recv(1)
        door.opened.set()
        patient.settimeout(PATIENCE)
        assert all_of(patient).endswith(b"opened")


def test_a_client_that_reads_slowly_is_served_and_one_that_does_not_read_is_given_up() -> None:
    with serving(stalled_s=5.0) as (door, port), connect(port, get("/endless")) as client:
        while door.sent < 40:
            assert client.recv(CHUNK)
        assert not door.ended.is_set() and door.ended.wait(PATIENCE)


def test_more_connections_than_there_may_be_get_an_answer_all_the_same() -> None:
    """Those that ask for nothing make room; where all are being answered, the next is told to come again."""
    with serving(connections=3) as (door, port), ExitStack() as held:
        idle = [held.enter_context(connect(port)) for _ in range(3)]
        with connect(port, get("/", LAST)) as fourth:
            assert all_of(fourth).startswith(b"HTTP/1.1 200 ")
        assert idle[0].recv(1) == b""
        busy = [held.enter_context(connect(port, get("/wait", LAST))) for _ in range(3)]
        while door.waiting < 3:
            Event().wait(0.01)
        with connect(port, get("/", LAST)) as refused:
            answer = all_of(refused)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in answer and b"try again" in answer
        door.opened.set()
        assert [all_of(one)[-6:] for one in busy] == [b"opened"] * 3


def test_a_closed_connection_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[H11Protocol]] = []

    def protocol(**given: Any) -> H11Protocol:
        one = H11Protocol(**given)
        made.append(weakref.ref(one))
        return one

    monkeypatch.setattr("tinygpt.serve.connections.H11Protocol", protocol)
    with serving() as (_, port):
        for _ in range(20):
            with connect(port, get("/", LAST)) as client:
                assert all_of(client)
        while any(one() for one in made):
            gc.collect()
    assert len(made) == 20
