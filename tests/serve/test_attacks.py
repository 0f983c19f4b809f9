"""What hostile, broken and unlucky clients do, for longer than the quick tests have time for."""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from serving_helpers import MODEL, Served, all_of, connect, engine_of, eventually, served, serving

from tinygpt.engines.select import EngineChoice

pytestmark = pytest.mark.slow
GOOD: dict[str, Any] = {"model": MODEL, "prompt": "1+1=", "max_tokens": 3}


def post(body: bytes, path: str = "/v1/completions", **more: str) -> bytes:
    headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in more.items()
    }
    lines = [f"POST {path} HTTP/1.1", *[f"{name}: {value}" for name, value in headers.items()], "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def well(server: Served) -> bool:
    """Nothing is left over, and it still writes."""
    return server.idle() and bool(server.client.completions.create(**GOOD).choices)


def bodies() -> Iterator[bytes]:
    """JSON that is none, or asks for what there is not."""
    yield from (b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"1e999", b"NaN")
    odd = [None, True, 1, -1, 1e308, float("nan"), 2**70, "", "x" * 70_000, [], {}, [[]], [None], {"a": {}}, ["\ud800"]]
    names = ["model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "seed", "n", "stop", "stream", "echo"]
    for number, name in enumerate(names * 7):
        yield json.dumps(GOOD | {name: odd[number % len(odd)]}).encode()
    for messages in (None, [], [{}], [[]], [{"role": "user", "content": odd}], [{"role": ["user"], "content": "a"}]):
        yield json.dumps({"model": MODEL, "messages": messages}).encode()


def requests() -> Iterator[bytes]:
    """HTTP that is none, or says one thing and does another."""
    good = json.dumps(GOOD).encode()
    yield from (b"\r\n" * 100 + b"\0", b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03" + bytes(200), b"GET / HTTP/9.9\r\n\r\n")
    yield b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"
    yield post(good, Content_Length="-1")
    yield post(good, Content_Length="9" * 30)
    yield post(good, Content_Length="2")
    yield post(good, Transfer_Encoding="chunked")
    yield post(b"zz\r\n" + good, Transfer_Encoding="chunked", Content_Length="0")
    yield post(good, Host="elsewhere.example")
    yield post(good, Host="[::1")
    yield post(good, Upgrade="websocket", Connection="Upgrade")
    yield post(good, "/v1/models/%00%ff/../..")
    yield post(good, "http://elsewhere.example/v1/completions")
    yield post(good).replace(b"POST", b"TRACE")
    yield post(good).replace(b"POST", b"\xc3\xa9")
    for body in bodies():
        yield post(body)
        yield post(body, "/v1/chat/completions")


def test_malformed_requests_get_an_answer_and_do_no_harm() -> None:
    with served(body_s=5.0) as server:
        count = 0
        for request in requests():
            with connect(server.url) as connection:
                try:
                    connection.sendall(request)
                    answer = all_of(connection)
                except OSError:  # refused before all of it was sent
                    answer = b"HTTP/1.1 400 "
            status = int(answer.split()[1])
            assert status < 500, (request[:300], answer[:300])
            assert status < 400 or b"Traceback" not in answer
            count += 1
        assert count > 100 and well(server)


def test_clients_that_vanish_leave_nothing_behind() -> None:
    draw = random.Random(0)
    with served(rows=4) as server:
        for number in range(300):
            asked = GOOD | {"max_tokens": 100_000, "n": draw.randint(1, 4), "stream": bool(number % 2)}
            request = post(json.dumps(asked).encode())
            connection = connect(server.url)
            connection.sendall(request[: draw.choice([0, 10, 100, len(request) - 1, len(request)])])
            if draw.random() < 0.5:
                connection.settimeout(draw.random() * 0.05 + 0.001)
                with suppress(OSError):
                    connection.recv(draw.choice([1, 100, 65536]))
            if draw.random() < 0.5:  # a reset instead of an end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert well(server)


def test_slow_senders_keep_nobody_waiting() -> None:
    """For as long as they may, two hundred of them send a byte now and then."""
    request = post(json.dumps(GOOD | {"prompt": "1" * 10_000}).encode())
    headers = request.index(b"\r\n\r\n") + 4
    over = threading.Event()

    def trickle(connections: list[socket.socket]) -> None:
        for place in range(headers + 5, len(request)):
            for connection in connections:
                with suppress(OSError):  # given up
                    connection.send(request[place : place + 1])
            if over.wait(0.5):
                return

    with served(body_s=10.0) as server, ExitStack() as held:
        slow = [held.enter_context(connect(server.url)) for _ in range(200)]
        for number, connection in enumerate(slow):
            connection.sendall(request[: headers + 5] if number % 2 else request[:20])
        thread = threading.Thread(target=trickle, args=(slow[1::2],))
        thread.start()
        for _ in range(30):
            assert server.client.completions.create(**GOOD).choices
            over.wait(0.5)
        over.set()
        thread.join()
        answers = [all_of(one) for one in slow]
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
        assert well(server)


@pytest.mark.skipif(sys.platform != "linux", reason="memory as Linux tells it")
def test_many_short_connections_take_no_memory() -> None:
    def resident(pid: int) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096

    def ask(url: str, times: int) -> None:
        for _ in range(times):
            with connect(url) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert all_of(connection).startswith(b"HTTP/1.1 200 ")

    with serving(MODEL, "--quiet") as (child, url):
        ask(url, 2000)
        before, files = resident(child.pid), len(list(Path(f"/proc/{child.pid}/fd").iterdir()))
        ask(url, 12_000)
        assert resident(child.pid) - before < 3_000_000
        assert eventually(lambda: len(list(Path(f"/proc/{child.pid}/fd").iterdir())) <= files)


def test_a_node_that_is_killed_is_started_again() -> None:
    opened: list[Any] = []
    open_one = engine_of(EngineChoice("wasm-node", threads=1))

    def open_engine() -> Any:
        opened.append(open_one())
        return opened[-1]

    with served(open_engine=open_engine) as server:
        for killed in range(3):
            with server.client.completions.create(**GOOD | {"max_tokens": 100_000}, stream=True) as stream:
                events = iter(stream)
                next(events)
                opened[-1].player.runner.process.kill()
                with pytest.raises(openai.APIError, match="its engine stopped"):
                    list(events)
            assert eventually(lambda: server.get("/health").status_code == 200)
            assert len(opened) == killed + 2
            assert well(server)
