"""`tinygpt serve` in a process of its own: how it ends."""

from __future__ import annotations

import json
import signal
import sys

import httpx
import pytest
from serving_helpers import MODEL, PATIENCE, serving, started

from tinygpt.cli.interrupts import INTERRUPTED

QUIET_END = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 0}
unix = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_streams_with_a_last_event_and_the_process_without_a_word(number: signal.Signals) -> None:
    asked = {"model": MODEL, "prompt": "1+1=", "max_tokens": 100_000, "stream": True}
    with (
        serving(MODEL, before="import tinygpt.cli.commands.serve as serve\nserve.GRACE_S = 0.1") as (child, url),
        httpx.stream("POST", f"{url}/v1/completions", json=asked, timeout=PATIENCE) as answer,
    ):
        lines = answer.iter_lines()
        assert json.loads(next(lines).removeprefix("data: "))["choices"]
        child.send_signal(number)
        rest = [line for line in lines if line]
        _, errors = child.communicate(timeout=PATIENCE)
    assert "the server is shutting down" in rest[-2] and rest[-1] == "data: [DONE]"
    assert (child.returncode, errors) == (QUIET_END[number], "")


SHORT_OF_MEMORY = """
import resource
import tinygpt.cli.commands.serve as serve
def open_engine(checkpoint, choice, original=serve.open_engine):
    pages = int(open("/proc/self/statm").read().split()[0])
    most = pages * resource.getpagesize() + (8 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return original(checkpoint, choice)
serve.open_engine = open_engine
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of Linux")
def test_a_server_without_the_memory_it_needs_says_so_and_ends() -> None:
    with started("shakespeare-huge", before=SHORT_OF_MEMORY) as child:
        try:
            _, errors = child.communicate(timeout=PATIENCE)
        finally:
            child.kill()
    assert child.returncode == 1 and errors.startswith("error: ") and "memory" in errors and errors.count("\n") == 1


BREAKS = """
import tinygpt.cli.commands.serve as serve
opened = []
def open_engine(checkpoint, choice, original=serve.open_engine):
    if opened:
        raise OSError("the device is gone")
    opened.append(original(checkpoint, choice))
    async def fail(count):
        raise RuntimeError("the device is lost")
    opened[0].continue_texts = fail
    return opened[0]
serve.open_engine = open_engine
import tinygpt.serve.writer as writer
writer.Writer.__init__.__defaults__ = (*writer.Writer.__init__.__defaults__[:-1], 0.0)
"""


def test_a_server_whose_engine_cannot_be_opened_again_ends_with_a_sentence() -> None:
    with serving(MODEL, before=BREAKS) as (child, url):
        asked = {"model": MODEL, "prompt": "1+1=", "max_tokens": 9}
        assert httpx.post(f"{url}/v1/completions", json=asked, timeout=PATIENCE).status_code == 503
        _, errors = child.communicate(timeout=PATIENCE)
    last = errors.splitlines()[-1]
    assert child.returncode == 1 and last.startswith(f"error: the engine of {MODEL} stopped and could not be opened")
