"""An engine that fails ends its texts with an error and is opened again; the server never hangs."""

from __future__ import annotations

from threading import Event
from typing import Any

import httpx
import openai
import pytest
from serving_helpers import MODEL, PATIENCE, Served, engine_of, eventually, served

from tinygpt.core.config import SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.serve.writer import TRIES, Order, Writer

LONG: dict[str, Any] = {"model": MODEL, "prompt": "1+1=", "max_tokens": 100_000}


class Failing:
    """An engine that fails when it is told to."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def continue_texts(self, count: int) -> Any:
        if self.fault is not None:
            raise self.fault
        return await self.engine.continue_texts(count)


class Factory:
    """Opens engines, unless `fault` is set, and not before `allowed`."""

    def __init__(self) -> None:
        self.open_one = engine_of()
        self.opened: list[Failing] = []
        self.tried = 0
        self.fault: Exception | None = None
        self.allowed = Event()
        self.allowed.set()

    def __call__(self) -> Any:
        self.tried += 1
        assert self.allowed.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        self.opened.append(Failing(self.open_one()))
        return self.opened[-1]


def health(server: Served) -> httpx.Response:
    return server.get("/health")


@pytest.mark.parametrize(
    "fault", [MemoryError(), TinyGPTError("the node runner ended with status -9"), ValueError("x")]
)
def test_an_engine_that_fails_ends_its_texts_and_is_opened_again(fault: Exception) -> None:
    factory = Factory()
    with served(open_engine=factory) as server:
        with server.client.completions.create(**LONG, stream=True) as stream:
            events = iter(stream)
            next(events)
            factory.allowed.clear()
            factory.opened[0].fault = fault
            with pytest.raises(openai.APIError, match="its engine stopped"):
                list(events)
        assert health(server).status_code == 503
        assert "its engine stopped" in health(server).json()["models"][MODEL]["problem"]
        refused = server.post("completions", LONG)
        assert refused.status_code == 503 and refused.headers["Retry-After"] and "engine" in refused.text
        factory.allowed.set()
        assert eventually(lambda: health(server).status_code == 200)
        assert health(server).json()["status"] == "ok"
        assert server.client.completions.create(model=MODEL, prompt="2+2=", max_tokens=1).choices[0].text
        assert len(factory.opened) == 2


def test_a_whole_answer_is_refused_when_its_engine_fails() -> None:
    factory = Factory()
    with served(open_engine=factory) as server:
        factory.opened[0].fault = MemoryError()
        answer = server.post("completions", {"model": MODEL, "prompt": "1+1=", "max_tokens": 9})
    assert answer.status_code == 503 and "not enough memory" in answer.json()["error"]["message"]


def test_an_engine_that_cannot_be_opened_again_is_given_up_after_three_tries() -> None:
    factory, warnings = Factory(), list[str]()
    writer = Writer(MODEL, factory, 1, 9, warnings.append, pause_s=0.0)
    writer.open()
    factory.fault = OSError("no device")
    factory.opened[0].fault = RuntimeError("lost")
    told: list[Any] = []
    writer.ask([Order(b"1+1=", SampleConfig(tokens=100), (), told.append)])
    writer.thread.join()
    assert factory.tried == 1 + TRIES
    assert str(writer.fault) == (
        f"the engine of {MODEL} stopped and could not be opened again in 3 tries: OSError: no device"
    )
    assert "RuntimeError: lost" in str(told[-1]) and "RuntimeError: lost" in warnings[0]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(12, "Cannot allocate memory"), "not enough memory"),
        (TinyGPTError("there is no such device"), "^there is no such device$"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_engine_that_cannot_be_opened_at_all_is_told_at_once(fault: Exception, says: str) -> None:
    factory = Factory()
    factory.fault = fault
    with pytest.raises(TinyGPTError, match=says):
        Writer(MODEL, factory, 1, 9).open()
    assert factory.tried == 1
