"""What the page is served with."""

from __future__ import annotations

import base64
import hashlib
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from tinygpt.cli.app import app
from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.core.errors import TinyGPTError
from tinygpt.serve.headers import allow_inline, headers_for, read_rules
from tinygpt.serve.server import HOST, ISOLATION, PORTS_TO_TRY, Site, listen

STATED = (Path(__file__).parent.parent / "web" / "public" / "_headers").read_text()
PAGE = headers_for(read_rules(STATED), "/")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "_astro").mkdir()
    for name in ("index.html", "kernels.wasm", "worker.js", "text.txt", "_astro/page.js"):
        (tmp_path / name).write_bytes(b"bytes")
    (tmp_path / "_headers").write_text(STATED)
    yield tmp_path


def exchange(site: Site, request: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    with socket.create_connection((HOST, site.port), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def get(path: bytes, host: bytes = b"localhost") -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", "text/html"),
        ("kernels.wasm", "application/wasm"),
        ("worker.js", "text/javascript"),
        ("text.txt", "text/plain"),
    ],
)
def test_types_and_isolation(folder: Path, path: str, kind: str) -> None:
    with Site(folder) as site, urlopen(site.url + path) as answer:
        assert answer.read() == b"bytes"
        assert answer.headers["Content-Type"].startswith(kind)
        assert {name: answer.headers[name] for name in PAGE} == PAGE
        assert answer.headers["Cache-Control"] == "no-cache"


def test_hashed_names_are_kept_and_isolation_can_be_left_out(folder: Path) -> None:
    with Site(folder, isolated=False) as site, urlopen(site.url + "_astro/page.js") as answer:
        assert "immutable" in answer.headers["Cache-Control"]
        assert not any(answer.headers[name] for name in ISOLATION)
        assert answer.headers["Content-Security-Policy"] == PAGE["Content-Security-Policy"]


def test_nothing_outside_the_folder(folder: Path) -> None:
    (folder.parent / "secret.txt").write_text("secret")
    with Site(folder) as site:
        for path in ("../secret.txt", "%2e%2e/secret.txt", "missing"):
            with pytest.raises(HTTPError) as fault:
                urlopen(site.url + path)
            fault.value.close()
            assert fault.value.code == 404


def test_a_port_that_is_taken(folder: Path) -> None:
    with Site(folder) as first, Site(folder, first.port) as second:
        assert first.port < second.port < first.port + PORTS_TO_TRY


def test_no_port_behind_the_last_one_is_tried(folder: Path) -> None:
    with (
        closing(socket.create_server((HOST, 65535))),
        pytest.raises(TinyGPTError, match="65535 to 65535 are all taken"),
    ):
        Site(folder, 65535)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TinyGPTError, match="no page in"):
        Site(tmp_path / "missing")


@pytest.mark.parametrize("path", [b"/_astro/", b"/_astro", b"/_astro/."])
def test_folders_are_not_listed(folder: Path, path: bytes) -> None:
    with Site(folder) as site:
        answer = exchange(site, get(path))
    assert status(answer) == 404 and b"page.js" not in answer and b"immutable" not in answer


@pytest.mark.parametrize("host", [b"localhost", b"127.0.0.1", b"LOCALHOST:8017"])
def test_names_of_this_machine_are_served(folder: Path, host: bytes) -> None:
    with Site(folder) as site:
        assert status(exchange(site, get(b"/", host))) == 200


@pytest.mark.parametrize("host", [b"attacker.example", b"127.0.0.1.attacker.example", b"localhost@evil", b"", b"\xff"])
def test_names_that_others_made_lead_nowhere(folder: Path, host: bytes) -> None:
    with Site(folder) as site:
        answer = exchange(site, get(b"/text.txt", host))
    assert status(answer) == 400 and not answer.endswith(b"bytes")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/one\r\nHost: localhost\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\xfc\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (get(b"/%00"), 404),
        (get(b"/text.txt%00"), 404),
        (get(b"/" + b"a" * 5000), 404),
        (get(b"/%ff%fe"), 404),
        (get(b"//etc/passwd"), 404),
        (get(b"/..%2f..%2fetc/passwd"), 404),
        (get(b"/").replace(b"GET", b"POST"), 405),
    ],
)
def test_odd_requests_are_refused_in_words(folder: Path, request_: bytes, expected: int) -> None:
    with Site(folder) as site:
        assert status(exchange(site, request_)) == expected


def test_only_the_scripts_inside_the_pages_are_let_run() -> None:
    inline = "<script>let a = '&lt;';</script>"
    page = f"<p>a{inline}<script src=b.js></script><style>a{{}}</style>{inline}"
    policy = headers_for(read_rules(allow_inline(STATED, [page])), "/")["Content-Security-Policy"]
    script = base64.b64encode(hashlib.sha256(b"let a = '&lt;';").digest()).decode()
    style = base64.b64encode(hashlib.sha256(b"a{}").digest()).decode()
    assert f"; script-src 'self' 'sha256-{script}' 'wasm-unsafe-eval'; style-src 'self' 'sha256-{style}'; " in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe-inline" not in policy


def test_play_says_when_there_is_no_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tinygpt.site.build.DIST", tmp_path)
    result = CliRunner().invoke(app, ["play", "--no-open"])
    assert result.exit_code == 1 and "run: make play" in result.output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 0)])
def test_play_serves_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, folder: Path, number: signal.Signals, code: int
) -> None:
    """Also in the background, where a shell has it ignore Ctrl-C."""
    opened: list[str] = []
    before = signal.signal(number, signal.SIG_IGN)
    monkeypatch.setattr("tinygpt.site.build.DIST", folder)
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    monkeypatch.setattr("tinygpt.cli.commands.play.sleep", lambda seconds: signal.raise_signal(number))
    try:
        result = CliRunner().invoke(app, ["play", "--port", "0"])
    finally:
        signal.signal(number, before)
    assert result.exit_code == code and opened and opened[0] in result.output


def test_an_answer_does_not_wait_for_its_client_to_acknowledge() -> None:
    """Nagle's algorithm is off: it made every answer on a connection that is used again 40 ms late."""
    with closing(listen(0)) as server, socket.create_connection(server.getsockname(), timeout=10):
        accepted, _ = server.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
