"""Names, keys and types: who may use a server, and a page of another site may not."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import openai
import pytest
from serving_helpers import MODEL, served
from typer.testing import CliRunner

from tinygpt.cli.app import app
from tinygpt.cli.commands import serve as command
from tinygpt.core.errors import TinyGPTError
from tinygpt.serve.server import is_loopback, listen

KEY = "sesame-1"
ASKED = {"model": MODEL, "prompt": "1+1=", "max_tokens": 1}


def test_a_key_is_required_where_there_is_one() -> None:
    with served(api_key=KEY) as server:
        for key in ("", "Bearer", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY} "[:-2], "Bearer \xff"):
            headers = {"Authorization": key.encode("latin-1")} if key else {}
            refused = server.get("/v1/models", headers=headers)
            assert refused.status_code == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
            assert "requires an API key" in refused.json()["error"]["message"]
        with pytest.raises(openai.AuthenticationError):
            server.client.completions.create(**ASKED)
        assert server.client.with_options(api_key=KEY).completions.create(**ASKED).choices[0].text
        assert server.get("/health").status_code == server.get("/").status_code == 200


def test_what_a_page_of_another_site_can_send_unasked_is_refused() -> None:
    with served() as server:

        def post(kind: str) -> httpx.Response:
            return httpx.post(f"{server.url}/v1/completions", content=b"{}", headers={"Content-Type": kind})

        for kind in ("text/plain", "application/x-www-form-urlencoded", "", "text/plain; application/json"):
            refused = post(kind)
            assert refused.status_code == 415 and "application/json" in refused.json()["error"]["message"]
        assert post("Application/JSON; charset=utf-8").status_code == 400


class Stop(Exception):
    pass


def hosts_of(host: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[list[str], str]:
    """The names that a server there answers to, and all that it said."""
    seen: list[Any] = []

    def api_app(writers: Any, log: Any, hosts: list[str], api_key: str | None) -> Any:
        seen.append(hosts)
        raise Stop

    monkeypatch.setattr("tinygpt.serve.app.api_app", api_app)
    result = CliRunner().invoke(app, ["serve", MODEL, "--port", "0", "--threads", "1", "--host", host, *arguments])
    assert isinstance(result.exception, Stop), (result.output, result.exception)
    return seen[0], result.output


def can_listen(host: str) -> bool:
    try:
        listen(0, host).close()
    except (OSError, TinyGPTError):
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_names_are_checked_wherever_only_this_machine_is_heard(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_listen(host):
        pytest.skip(f"this machine has no {host}")
    hosts, said = hosts_of(host, monkeypatch)
    shown = "[::1]" if host == "::1" else host
    assert "localhost" in hosts and shown in hosts and "*" not in hosts
    assert f"Serving at http://{shown}:" in said and "warning" not in said


def test_a_server_without_a_key_that_others_can_reach_comes_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, said = hosts_of("0.0.0.0", monkeypatch)
    assert hosts == ["*"] and "warning: anyone who can reach 0.0.0.0" in said and command.KEY_VARIABLE in said
    monkeypatch.setenv(command.KEY_VARIABLE, KEY)
    assert "warning" not in hosts_of("0.0.0.0", monkeypatch)[1]


@pytest.mark.parametrize("host", ["", " ", "no such host", "203.0.113.7"])
def test_an_address_that_is_none_gets_a_sentence(host: str) -> None:
    with pytest.raises(TinyGPTError, match=r"127\.0\.0\.1 is this machine alone"):
        listen(0, host).close()


@pytest.mark.parametrize("key", ["", "two words", "schlüssel", "line\n"])
def test_a_key_that_no_header_can_hold_gets_a_sentence(key: str) -> None:
    result = CliRunner().invoke(app, ["serve", MODEL, "--api-key", key])
    assert result.exit_code == 1 and "--api-key takes ASCII letters" in result.stderr


@pytest.mark.skipif(not can_listen("::1"), reason="this machine has no IPv6")
def test_ipv6() -> None:
    with served(host="::1", hosts=["[::1]"]) as server:
        assert server.url.startswith("http://[::1]:") and server.get("/v1/models").status_code == 200
        assert server.get("/v1/models", headers={"Host": "elsewhere.example"}).status_code == 400


def test_what_only_this_machine_reaches() -> None:
    for host, alone in (("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)):
        with listen(0, host) as bound:
            assert is_loopback(bound) is alone and bound.family == socket.AF_INET
