"""What the page is served with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from tinygpt.cli import app
from tinygpt.cli.interrupts import INTERRUPTED
from tinygpt.core.errors import TinyGPTError
from tinygpt.server import ISOLATION, PORTS_TO_TRY, Site

HEADERS_FILE = Path(__file__).parent.parent / "web" / "public" / "_headers"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "_astro").mkdir()
    for name in ("index.html", "kernels.wasm", "worker.js", "text.txt", "_astro/page.js"):
        (tmp_path / name).write_bytes(b"bytes")
    yield tmp_path


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
        assert {name: answer.headers[name] for name in ISOLATION} == ISOLATION
        assert answer.headers["Cache-Control"] == "no-cache"


def test_hashed_names_are_kept_and_isolation_can_be_left_out(folder: Path) -> None:
    with Site(folder, isolated=False) as site, urlopen(site.url + "_astro/page.js") as answer:
        assert "immutable" in answer.headers["Cache-Control"]
        assert not any(answer.headers[name] for name in ISOLATION)


def test_nothing_outside_the_folder(folder: Path) -> None:
    (folder.parent / "secret.txt").write_text("secret")
    with Site(folder) as site:
        for path in ("../secret.txt", "%2e%2e/secret.txt", "missing"):
            with pytest.raises(HTTPError) as fault:
                urlopen(site.url + path)
            fault.value.close()
            assert fault.value.code == 404


def test_a_port_that_is_taken(folder: Path) -> None:
    with Site(folder) as first:
        port = first.server.server_port
        with Site(folder, port) as second:
            assert port < second.server.server_port < port + PORTS_TO_TRY


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TinyGPTError, match="no folder"):
        Site(tmp_path / "missing")


def test_static_hosts_are_told_the_same() -> None:
    stated = HEADERS_FILE.read_text()
    assert all(f"{name}: {value}" in stated for name, value in ISOLATION.items())


def test_play_says_when_there_is_no_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tinygpt.site.DIST", tmp_path)
    result = CliRunner().invoke(app, ["play", "--no-open"])
    assert result.exit_code == 1 and "run: make play" in result.output


class InterruptedAtOnce:
    def wait(self) -> None:
        raise KeyboardInterrupt


def test_play_serves_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tinygpt.site.DIST", folder)
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    monkeypatch.setattr("tinygpt.cli.play.Event", InterruptedAtOnce)
    result = CliRunner().invoke(app, ["play", "--port", "0"])
    assert result.exit_code == INTERRUPTED and opened and opened[0] in result.output
