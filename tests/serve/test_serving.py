"""`tinygpt serve`, driven by the real `openai` package; what clients do wrong, and what they do to it all at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_helpers import CHOICE, MODEL, Served, served
from typer.testing import CliRunner

from tinygpt.cli.app import app
from tinygpt.cli.commands.serve import named_models, open_engine
from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.write.sampler import behind_stop, generate
from tinygpt.serve.answers import Held


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as one:
        yield one


@pytest.fixture(scope="module")
def alone() -> Iterator[Any]:
    """What the model writes by itself."""
    checkpoint = named_models([MODEL], [])[MODEL]
    engine = open_engine(checkpoint, CHOICE)

    def write(prompt: str, stops: tuple[bytes, ...] = (), **settings: Any) -> str:
        read = b"\n" + prompt.encode()  # it has learned a task, whose lines are all that it knows
        made = run_now(generate(engine, checkpoint.config.model.ctx, read, SampleConfig(**settings), stops))
        return made.decode("utf-8", "replace")

    yield write
    run_now(engine.close())


def test_completions_are_what_the_model_writes(server: Served, alone: Any) -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "prompt": ["12+34=", "7+8="],
        "max_tokens": 60,
        "temperature": 0.7,
        "seed": 5,
    }
    whole = server.client.completions.create(**asked, n=2)
    wanted = [alone(prompt, tokens=60, temperature=0.7, seed=seed) for prompt in asked["prompt"] for seed in (5, 6)]
    assert [choice.text for choice in whole.choices] == wanted
    assert [choice.finish_reason for choice in whole.choices] == ["length"] * 4
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (10, 240)

    streamed = ["", "", "", ""]
    usage = None
    for chunk in server.client.completions.create(**asked, n=2, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == wanted and usage is not None and usage.completion_tokens == 240
    tokens = server.client.completions.create(model=MODEL, prompt=list(b"7+8="), max_tokens=2, temperature=0, echo=True)
    assert tokens.choices[0].text == "7+8=" + alone("7+8=", tokens=2, temperature=0)


def test_the_seed_after_the_largest_is_0_here_and_in_sample(server: Served, alone: Any) -> None:
    wanted = [alone("7+8=", tokens=5, temperature=0.7, seed=seed) for seed in (2**32 - 1, 0)]
    asked: dict[str, Any] = {"model": MODEL, "prompt": "7+8=", "max_tokens": 5, "temperature": 0.7}
    for seed in (2**32 - 1, -1):
        served = server.client.completions.create(**asked, seed=seed, n=2)
        assert [choice.text for choice in served.choices] == wanted
    how = ["--prompt", "7+8=", "--tokens", "5", "--temperature", "0.7", "--threads", "1", "--json"]
    sampled = CliRunner().invoke(app, ["sample", MODEL, *how, "--seed", str(2**32 - 1), "--count", "2"])
    assert [json.loads(line)["text"] for line in sampled.stdout.splitlines()] == wanted, sampled.stderr


def test_a_stop_ends_a_text_and_is_not_part_of_it(server: Served, alone: Any) -> None:
    answer, _, _ = alone("40+2=", tokens=20, temperature=0).partition("\n")
    asked: dict[str, Any] = {
        "model": MODEL,
        "prompt": "40+2=",
        "max_tokens": 20,
        "temperature": 0,
        "stop": ["\n", "xy"],
    }
    whole = server.client.completions.create(**asked)
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == (answer, "stop")
    chunks = list(server.client.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer
    assert chunks[-1].choices[0].finish_reason == "stop"


@given(st.binary(max_size=40), st.lists(st.binary(min_size=1, max_size=4), max_size=3), st.integers(1, 7))
def test_what_is_held_back_is_a_stop_or_comes_after_all(text: bytes, stops: list[bytes], size: int) -> None:
    end = behind_stop(b"", text, tuple(stops))
    written = text[:end] if end else text
    held = Held(tuple(stops))
    told = "".join(held.push(written[i : i + size]) for i in range(0, len(written), size))
    rest, why = held.end()
    reached = max((len(stop) for stop in stops if written.endswith(stop)), default=0)
    assert told + rest == written[: len(written) - reached].decode("utf-8", "replace")
    assert why == ("stop" if end else "length")


def test_chat(server: Served, alone: Any) -> None:
    messages: Any = [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": [{"type": "text", "text": "1+2="}]},
    ]
    asked: dict[str, Any] = {"model": MODEL, "messages": messages, "max_completion_tokens": 30, "seed": 3}
    whole = server.client.chat.completions.create(**asked)
    wanted = alone(
        "System: Add.\nUser: 1+2=\nAssistant:", (b"\nUser:", b"\nSystem:"), tokens=30, temperature=1.0, seed=3
    )
    assert whole.choices[0].message.content == wanted and whole.choices[0].message.role == "assistant"
    chunks = list(server.client.chat.completions.create(**asked, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == wanted
    assert chunks[-1].choices[0].finish_reason == "length"


def test_models_health_and_the_page(server: Served) -> None:
    assert [model.id for model in server.client.models.list()] == [MODEL]
    assert server.client.models.retrieve(MODEL).id == MODEL
    assert httpx.get(f"{server.url}/health").json()["models"][MODEL]["engine"].startswith("native")
    page = httpx.get(f"{server.url}/")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"] and "<textarea" in page.text
    assert httpx.get(f"{server.url}/page.js").headers["Content-Type"].startswith("text/javascript")
    assert httpx.get(f"{server.url}/v1/models", headers={"Host": "elsewhere.example"}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("completions", b"{", 400, "no JSON"),
        ("completions", [], 400, "must be a JSON object"),
        ("completions", {"prompt": "1"}, 400, "model must be a name"),
        ("completions", {"model": "gpt-4"}, 404, "there is no model 'gpt-4' here, only addition"),
        ("completions", {"model": MODEL, "prompt": [300]}, 400, "prompt must be"),
        ("completions", {"model": MODEL, "prompt": "", "max_tokens": 0}, 400, "from 1 to 100000, not 0"),
        ("completions", {"model": MODEL, "max_tokens": True}, 400, "max_tokens must be a whole number"),
        ("completions", {"model": MODEL, "temperature": "hot"}, 400, "temperature must be a number from 0 to 2"),
        ("completions", {"model": MODEL, "n": 65}, 400, "from 1 to 64"),
        ("completions", {"model": MODEL, "prompt": ["a"] * 9, "n": 9}, 400, "81 texts"),
        ("completions", {"model": MODEL, "stop": ["a"] * 17}, 400, "up to 16 texts"),
        ("completions", {"model": MODEL, "stream": "yes"}, 400, "stream must be true or false"),
        ("completions", {"model": MODEL, "stream": 1}, 400, "stream must be true or false, not 1"),
        ("completions", {"model": MODEL, "stream_options": [1]}, 400, "stream_options must be an object, not [1]"),
        ("completions", b" " * (1 << 20) + b"{}", 413, "more than 1,048,576 bytes"),
        ("chat/completions", {"model": MODEL}, 400, "at least one message"),
        ("chat/completions", {"model": MODEL, "messages": [{"role": "me"}]}, 400, "needs a role"),
        ("chat/completions", {"model": MODEL, "messages": [{"role": "user"}]}, 400, "must be a text"),
        ("chat/completions", {"model": MODEL, "messages": [], "tools": [{}]}, 400, "tools is not supported"),
        ("completions", {"model": MODEL, "frequency_penalty": 1}, 400, "frequency_penalty is not supported"),
        ("completions", {"model": MODEL, "logit_bias": {"65": 1}}, 400, "logit_bias is not supported"),
        (
            "chat/completions",
            {"model": MODEL, "messages": [{"role": "user", "content": ""}], "top_logprobs": 1},
            400,
            "needs logprobs: true",
        ),
        ("nowhere", {}, 404, "unknown endpoint"),
    ],
)
def test_bad_requests_get_a_sentence(server: Served, path: str, body: Any, status: int, says: str) -> None:
    answer = server.post(path, body)
    error = answer.json()["error"]
    assert answer.status_code == status and says in error["message"] and error["type"] == "invalid_request_error"


def test_what_is_no_text_does_no_harm(server: Served) -> None:
    answer = server.post(
        "completions", b'{"model": "addition", "prompt": "\\ud800", "max_tokens": 1, "stop": "\\udfff"}'
    )
    assert answer.status_code == 200


def test_too_much_at_once_is_refused_and_a_client_that_goes_away_stops_its_work() -> None:
    with served(rows=2, most=3) as server:
        asked: dict[str, Any] = {"model": MODEL, "prompt": "1+1=", "max_tokens": 100_000}
        with server.client.completions.create(**asked, n=3, stream=True) as stream:
            assert next(iter(stream)).choices
            with pytest.raises(openai.RateLimitError, match="has 3 texts to write and takes at most 3"):
                server.client.completions.create(**asked)
        assert server.idle()
        with pytest.raises(openai.APITimeoutError):
            server.client.with_options(timeout=0.3).completions.create(**asked)
        assert server.idle()
        assert server.client.completions.create(model=MODEL, prompt="2+2=", max_tokens=1).choices[0].text


def storm(server: Served, alone: Any, clients: int, requests: int) -> None:
    """Every client asks, whole and streamed by turns, as fast as it can; now and then one goes away."""
    prompts = [f"{number}+{number % 7}=" for number in range(10, 30)]
    answers = [alone(prompt, (b"\n",), tokens=256, temperature=0).removesuffix("\n") for prompt in prompts]

    async def one(client: openai.AsyncOpenAI, number: int) -> None:
        asked: dict[str, Any] = {
            "model": MODEL,
            "prompt": prompts[number % 20],
            "temperature": 0,
            "stop": "\n",
        }
        wanted = answers[number % 20]
        if number % 10 == 9:
            stream = await client.completions.create(**asked | {"stop": None}, max_tokens=5000, stream=True)
            await anext(aiter(stream))
            await stream.close()
        elif number % 2:
            stream = await client.completions.create(**asked, stream=True)
            assert "".join([chunk.choices[0].text async for chunk in stream]) == wanted
        else:
            assert (await client.completions.create(**asked)).choices[0].text == wanted

    async def go() -> None:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        numbers = iter(range(requests))

        async def work() -> None:
            for number in numbers:
                await one(client, number)

        await asyncio.gather(*[work() for _ in range(clients)])
        await client.close()

    with ThreadPoolExecutor(1) as elsewhere:  # Playwright's tests leave a loop running in this thread
        elsewhere.submit(lambda: asyncio.run(go())).result()


def test_many_clients_at_once(server: Served, alone: Any) -> None:
    storm(server, alone, clients=32, requests=150)
    assert server.idle()


@pytest.mark.slow
def test_a_thousand_requests_leave_nothing_behind(server: Served, alone: Any) -> None:
    import resource

    storm(server, alone, clients=32, requests=200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    storm(server, alone, clients=32, requests=1000)
    assert server.idle()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB, the client's own among them


def test_names_of_models() -> None:
    with pytest.raises(TinyGPTError, match="two models are called 'addition'"):
        named_models([MODEL, MODEL], [])
    assert list(named_models([MODEL, f"sums={MODEL}"], [])) == [MODEL, "sums"]
    with pytest.raises(TinyGPTError, match=r"NAME=MODEL\+ADAPTER, not 'whale'"):
        named_models([MODEL], ["whale"])
