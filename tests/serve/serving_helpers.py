"""A server in this process or in one of its own, and clients of it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai

from tinygpt.cli.commands.serve import named_models, open_engine
from tinygpt.engines.select import EngineChoice
from tinygpt.serve.app import api_app
from tinygpt.serve.connections import Limits
from tinygpt.serve.server import in_url, listen, quiet_server, running
from tinygpt.serve.writer import Writer

MODEL = "addition"
PATIENCE = 60  # seconds, on a busy machine
CHOICE = EngineChoice("native", threads=1)


class Served:
    def __init__(self, url: str, writer: Writer) -> None:
        self.url, self.writer = url, writer
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def post(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return httpx.post(f"{self.url}/v1/{path}", content=content, headers=headers, timeout=PATIENCE)

    def get(self, path: str, **how: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=PATIENCE, **how)

    def idle(self) -> bool:
        """Whether all that was asked is done or dropped, soon."""
        return eventually(lambda: not self.writer.writing and not self.writer.waiting)


def engine_of(choice: EngineChoice = CHOICE) -> Any:
    """A new engine of the model each time it is called."""
    checkpoint = named_models([MODEL], [])[MODEL]
    return lambda: open_engine(checkpoint, choice)


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold; the wait is that of a machine which is busy with something else."""
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def served(
    rows: int = 4, most: int = 256, open_engine: Any = None, host: str = "127.0.0.1", **how: Any
) -> Iterator[Served]:
    writer = Writer(MODEL, open_engine or engine_of(), rows, most, pause_s=0.01, text_name="task:sums")
    writer.open()
    limits = Limits(most + 100)
    server = quiet_server(api_app({MODEL: writer}, lambda line: None, **how), limits)
    try:
        with listen(0, host) as bound, running(server, bound):
            yield Served(f"http://{in_url(host)}:{bound.getsockname()[1]}", writer)
    finally:
        writer.close()


def default_signals() -> None:
    """Whatever whoever runs the tests ignores."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started(*arguments: str, before: str = "") -> subprocess.Popen[str]:
    """`tinygpt serve` with these; `before` is Python to run first."""
    program = f"{before}\nfrom tinygpt.cli import main\nmain()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--threads", "1", *arguments]
    pipe, first = subprocess.PIPE, default_signals if sys.platform != "win32" else None
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=first)


@contextmanager
def serving(*arguments: str, before: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address it serves at."""
    with started(*arguments, before=before) as child:
        try:
            assert child.stdout is not None
            line = next(line for line in child.stdout if line.startswith("Serving at "))
            yield child, line.split()[2].removesuffix("/v1,")
        finally:
            child.kill()


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    return b"".join(iter(lambda: connection.recv(65536), b""))
