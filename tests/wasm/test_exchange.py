"""Nobody else on the machine takes commands, answers them, or learns where to."""

import http.client
import stat
import sys
from pathlib import Path

import pytest

from tinygpt.bench.workload import Run
from tinygpt.core.presets import preset
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.exchange import HOST, ISOLATION, Exchange
from tinygpt.engines.wasm import WasmMachine


class Stub:
    headers = ISOLATION
    fault = ""
    heard = 0.0

    def __init__(self):
        self.answers = []

    def file(self, path):
        return (b"kernel", "application/wasm") if path == "kernels/a.wasm" else None

    def next_command(self, answer):
        self.answers.append(answer)
        return b"command"


@pytest.fixture
def exchange():
    exchange = Exchange(Stub())
    yield exchange
    exchange.close()


def ask(exchange, method, path, **headers):
    connection = http.client.HTTPConnection(HOST, exchange.server_port, timeout=10)
    connection.request(method, path, b"answer" if method == "POST" else None, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_our_runner_is_served(exchange):
    token, own = exchange.token, {"Origin": exchange.origin}
    assert ask(exchange, "POST", f"/{token}/exchange") == (200, b"command")
    assert ask(exchange, "POST", f"/{token}/exchange", **own) == (200, b"command")
    assert ask(exchange, "GET", f"/{token}/")[0] == 200
    assert ask(exchange, "GET", "/kernels/a.wasm") == (200, b"kernel")
    assert ask(exchange, "GET", "/kernels/b.wasm")[0] == 404
    assert exchange.runner.answers == [b"answer"] * 2


@pytest.mark.parametrize("path", ["/exchange", "//exchange", "/TOKEN/exchange", "/failed", "/", "*"])
def test_without_the_token_nothing_is_taken_or_told(exchange, path):
    assert ask(exchange, "POST", path.replace("TOKEN", exchange.token[:-1])) == (403, b"")
    assert exchange.runner.answers == [] and exchange.runner.fault == "" and exchange.runner.heard == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [{"Host": "attacker.example"}, {"Host": HOST}, {"Origin": "http://attacker.example"}, {"Origin": "null"}],
)
def test_pages_of_other_sites_are_refused_whatever_they_know(exchange, method, headers):
    assert ask(exchange, method, f"/{exchange.token}/exchange", **headers) == (403, b"")
    assert ask(exchange, "GET", "/kernels/a.wasm", **headers) == (403, b"")
    assert exchange.runner.answers == [] and exchange.runner.heard == 0


def test_every_exchange_has_its_own_token(exchange):
    other = Exchange(Stub())
    assert other.token != exchange.token and len(other.token) >= 32
    other.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["node", "chromium"])
def test_command_lines_do_not_tell_the_token(kind, request):
    runner = request.getfixturevalue(kind)
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(str(runner.folder if kind == "chromium" else "runner-node").encode() in line for line in lines)
    assert not any(runner.exchange.token.encode() in line for line in lines)
    assert stat.S_IMODE(runner.folder.stat().st_mode) == 0o700


def test_forged_answers_do_not_reach_the_losses(node):
    config = preset("tiny")
    straight, run = (Run(config, terminal_engine(config, WasmMachine("node", runner=node))) for _ in range(2))
    expected = straight.advance(3)
    assert ask(node.exchange, "POST", "/exchange") == (403, b"")
    assert run.advance(3) == expected
