"""Whatever answers in place of the datasets server: one sentence, in bounded time and memory."""

import copy
import gzip
import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from fake_datasets_server import FakeDatasetsServer, Reply, Request

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub import reading
from tinygpt.core.hub.names import parse_hub_name
from tinygpt.data import datasets_server, hub
from tinygpt.data.corpus import Corpus

OK = b"HTTP/1.1 200 OK\r\n"
WRONG: list[Any] = [None, True, -1, 10**400, 1e999, "", "x" * 600, "\ud800", [], [[]], [None], {}, {"": []}]
Path = tuple[str | int, ...]


@pytest.fixture(autouse=True)
def dataset(server: FakeDatasetsServer) -> None:
    server.add("o/n", [{"id": 1, "text": "first"}, {"id": 2, "text": "second"}])


def load(name: str = "hf:o/n/default:train#text") -> Corpus:
    return hub.load_rows(name, parse_hub_name(name), refresh=True, sleep=lambda seconds: None)


def every(head: bytes, piece: bytes, seconds: float) -> Iterator[bytes]:
    yield head
    while True:
        time.sleep(seconds)
        yield piece


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*here, key))


def replaced(value: Any, path: Path, wrong: Any) -> Any:
    if not path:
        return wrong
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = wrong
    return changed


class Stub:
    """Stands for the client: what it got is `bodies`, by path."""

    def __init__(self, bodies: dict[str, Any]) -> None:
        self.bodies = bodies

    def get(self, path: str, dataset: str, **parameters: object) -> Any:
        return json.loads(json.dumps(self.bodies[path]))


@pytest.mark.parametrize("at", ["/splits", "/rows"])
def test_every_part_of_an_answer_may_be_anything(
    server: FakeDatasetsServer, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(hub, "DatasetsServer", lambda **options: nullcontext(stub))
    monkeypatch.setattr(reading, "MOST_PAGES", 3)
    query = {"dataset": "o/n", "config": "default", "split": "train", "offset": "0", "length": "100"}
    known = {path: server.answer(Request(path, query, None))[1] for path in ("/splits", "/rows")}
    refused = 0
    for path in paths(known[at]):
        for wrong in WRONG:
            stub = Stub(known | {at: replaced(known[at], path, wrong)})
            try:
                assert load("hf:o/n").text.decode()
            except TinyGPTError as fault:
                refused += 1
                assert "\n" not in str(fault) and str(fault).isprintable()
    assert refused > 50


def test_names_that_no_request_can_hold(server: FakeDatasetsServer) -> None:
    splits = {"splits": [{"config": "\ud800", "split": "train"}]}
    server.replies = [Reply(200, body=json.dumps(splits).encode())]
    with pytest.raises(TinyGPTError, match="no such dataset, config or split"):
        load("hf:o/n")


@pytest.mark.parametrize("status", [200, 400, 503])
def test_nesting_without_end(server: FakeDatasetsServer, status: int) -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    server.replies = [Reply(status, body=b'{"error": ' + deep + b', "rows": ' + deep + b"}") for _ in range(6)]
    with pytest.raises(TinyGPTError, match=r"no datasets server|cannot serve o/n|too busy"):
        load()


def test_a_small_body_that_unpacks_to_a_large_one(server: FakeDatasetsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_server, "ANSWER_BYTES", 1 << 20)
    body = gzip.compress(b" " * (64 << 20), 1)
    server.replies = [Reply(200, headers={"Content-Encoding": "gzip"}, body=body)]
    tracemalloc.start()
    with pytest.raises(TinyGPTError, match="larger than 1 MiB"):
        load()
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_packed_answer_is_read(server: FakeDatasetsServer) -> None:
    body = gzip.compress(json.dumps({"rows": [{"row": {"text": "packed"}}], "num_rows_total": 1}).encode())
    server.replies = [Reply(200, headers={"Content-Encoding": "gzip"}, body=body)]
    assert load().text == b"packed"


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "gzip, gzip", "nonsense"])
def test_a_body_that_does_not_unpack(server: FakeDatasetsServer, encoding: str) -> None:
    server.replies = [Reply(200, headers={"Content-Encoding": encoding}, body=b"no packed body")]
    with pytest.raises(TinyGPTError, match="is no datasets server"):
        load()


@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found", b"503 Busy"])
def test_a_body_without_end(server: FakeDatasetsServer, status: bytes) -> None:
    server.replies = [Reply(0, raw=every(b"HTTP/1.1 " + status + b"\r\n\r\n", b" " * 65536, 0))]
    with pytest.raises(TinyGPTError, match="larger than 32 MiB"):
        load()


@pytest.mark.parametrize("head", [b"H", OK, OK + b"X: ", OK + b"\r\n", OK + b"Content-Length: 99\r\n\r\n"])
def test_one_byte_at_a_time(server: FakeDatasetsServer, monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(datasets_server, "ANSWER_SECONDS", 0.2)
    server.replies = [Reply(0, raw=every(head, b" ", 0.02)) for _ in range(3)]
    with pytest.raises(TinyGPTError, match=r"Cannot reach .*\(TimeoutError\)"):
        load()


def test_a_visit_without_end(server: FakeDatasetsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_server, "VISIT_SECONDS", 0.3)
    server.replies = [Reply(0, raw=every(OK + b"\r\n", b" ", 0.02))]
    with pytest.raises(TinyGPTError, match=r"took longer than .* minutes"):
        load()


@pytest.mark.parametrize(
    ("text", "limit", "pages"), [(" ", "MOST_BLANK_PAGES", 20), ("a", "MOST_PAGES", 30)], ids=["blank", "tiny"]
)
def test_pages_without_end(
    server: FakeDatasetsServer, monkeypatch: pytest.MonkeyPatch, text: str, limit: str, pages: int
) -> None:
    monkeypatch.setattr(reading, limit, pages)
    body = json.dumps({"rows": [{"row": {"text": text}}]}).encode()
    server.replies = [Reply(200, body=body) for _ in range(pages + 10)]
    with pytest.raises(TinyGPTError, match=f"The first {pages} rows of o/n hold too little text"):
        load()
    assert len(server.requests) == pages


def test_redirects_without_end(server: FakeDatasetsServer) -> None:
    server.replies = [Reply(302, headers={"Location": "/rows?dataset=o/n"}) for _ in range(50)]
    with pytest.raises(TinyGPTError, match="is no datasets server"):
        load()
    assert len(server.requests) == datasets_server.MOST_REDIRECTS + 1


def test_the_body_of_a_redirect_is_not_read(server: FakeDatasetsServer) -> None:
    query = "dataset=o/n&config=default&split=train&offset=0&length=100"
    head = f"HTTP/1.1 302 Found\r\nLocation: /rows?{query}\r\n\r\n".encode()
    server.replies = [Reply(0, raw=every(head, b" " * 65536, 0))]
    assert load().text == b"first\n\nsecond"


@pytest.mark.parametrize("place", ["http://", "file:///etc/passwd", "http://[", "http://a:99999/", "//\xff", "\x01"])
def test_a_redirect_to_nowhere(server: FakeDatasetsServer, place: str) -> None:
    server.replies = [Reply(302, headers={"Location": place}) for _ in range(3)]
    with pytest.raises(TinyGPTError, match=r"Cannot reach|cannot serve"):
        load()


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "Fri, 31 Dec 9999 23:59:59 -2359", "soon", "1" * 5000])
def test_an_odd_time_to_wait(server: FakeDatasetsServer, value: str) -> None:
    server.replies = [Reply(503, headers={"Retry-After": value})]
    try:
        assert load().text.startswith(b"first")
    except TinyGPTError as fault:
        assert "too busy" in str(fault)
