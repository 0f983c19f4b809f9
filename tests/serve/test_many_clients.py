"""Slow senders, and more clients than there is room for."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack

from serving_helpers import MODEL, Served, all_of, connect, eventually, served


def begin(server: Served, body: bytes, length: int | None = None) -> socket.socket:
    """A request to write whose body has a length, if not all of it."""
    connection = connect(server.url)
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length or len(body)}\r\n"
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def test_bodies_that_do_not_come_are_given_up() -> None:
    with served(body_s=0.2) as server, begin(server, b'{"model"', 100) as slow:
        answer = all_of(slow)
    assert answer.startswith(b"HTTP/1.1 408 ") and b"did not come within 0.2 seconds" in answer


def test_as_many_clients_as_texts_are_promised_and_the_next_gets_429() -> None:
    long = json.dumps({"model": MODEL, "prompt": "1+1=", "max_tokens": 100_000}).encode()
    with served(most=110) as server, ExitStack() as held:
        for _ in range(110):
            held.enter_context(begin(server, long))
        assert eventually(lambda: len(server.writer.waiting) + len(server.writer.writing) == 110)
        refused = server.post("completions", long)
        assert refused.status_code == 429 and refused.headers["Retry-After"] == "1"
        assert server.get("/health").status_code == 200


def test_those_who_never_ask_do_not_lock_others_out() -> None:
    with served(most=1) as server, ExitStack() as held:  # with room for 101 connections
        for _ in range(150):
            held.enter_context(connect(server.url)).sendall(b"POST")
        assert server.get("/v1/models").status_code == 200
