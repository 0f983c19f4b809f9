"""logprobs are those of `tinygpt eval`, byte for byte; what an evaluation harness asks is answered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from serving_helpers import MODEL, Served, engine_of, served

from tinygpt.core.engine.contract import run_now
from tinygpt.engines.evaluation import evaluate

LONG = "12+7=19\n" * 20 + "3+4="  # more than a context
APART = 1e-4  # nats, of two programs of one engine that add in another order


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as here:
        yield here


def losses(text: bytes) -> np.ndarray[Any, Any]:
    engine = engine_of()()
    try:
        return run_now(evaluate(engine, text)).per_byte
    finally:
        run_now(engine.close())


@pytest.mark.parametrize("prompt", ["3+4=", LONG])
def test_an_echoed_prompt_is_scored_as_eval_scores_it(server: Served, prompt: str) -> None:
    (choice,) = server.client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=3, temperature=0, echo=True, logprobs=2
    ).choices
    told = choice.logprobs
    assert (
        told is not None
        and told.tokens is not None
        and told.token_logprobs is not None
        and told.top_logprobs is not None
    )
    assert "".join(told.tokens) == choice.text and told.text_offset == list(range(len(choice.text)))
    assert told.token_logprobs[0] is None and told.top_logprobs[0] is None
    np.testing.assert_allclose(told.token_logprobs[1:], -losses(choice.text.encode()), atol=APART)
    for token, logprob, top in list(zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True))[1:]:
        assert len(top) == 2 and list(top.values()) == sorted(top.values(), reverse=True)
        assert logprob <= max(top.values()) and (token not in top or top[token] == logprob)
    for token, top in zip(told.tokens[-3:], told.top_logprobs[-3:], strict=True):
        assert next(iter(top)) == token  # what was written greedily is the most likely


def test_without_echo_only_what_was_written_is_told_and_every_likelihood_counts(server: Served) -> None:
    answer = server.client.completions.create(model=MODEL, prompt=["", "3+4="], max_tokens=2, logprobs=20, seed=1)
    for choice in answer.choices:
        assert choice.logprobs is not None and choice.logprobs.top_logprobs is not None
        assert len(choice.logprobs.tokens or []) == 2 == len(choice.logprobs.top_logprobs)
        assert all(0.9 < sum(map(math.exp, top.values())) <= 1 + 1e-6 for top in choice.logprobs.top_logprobs)


def test_a_chat_has_them_with_their_bytes(server: Served) -> None:
    messages: Any = [{"role": "user", "content": "3+4="}]
    ask = server.client.chat.completions.create
    (choice,) = ask(model=MODEL, messages=messages, max_tokens=4, logprobs=True, top_logprobs=3, temperature=0).choices
    assert choice.logprobs is not None and choice.logprobs.content is not None
    told = choice.logprobs.content
    assert bytes(byte for one in told for byte in one.bytes or []).decode("utf-8", "replace") == choice.message.content
    assert all(one.top_logprobs[0].bytes == one.bytes and len(one.top_logprobs) == 3 for one in told)
    plain = ask(model=MODEL, messages=messages, max_tokens=4, logprobs=True).choices[0].logprobs
    assert plain is not None and plain.content is not None and not plain.content[0].top_logprobs


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"logprobs": 21}, "logprobs must be a whole number from 0 to 20, not 21"),
        ({"logprobs": 1, "stream": True}, "logprobs come with a whole answer: leave stream out"),
        ({"logprobs": 1, "max_tokens": 20_000}, "with logprobs a prompt and max_tokens may have 16,384 bytes together"),
    ],
)
def test_what_is_not_scored_is_said(server: Served, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(openai.BadRequestError, match=says):
        server.client.completions.create(model=MODEL, prompt="1", **asked)


def test_metrics_count_what_was_answered(server: Served) -> None:
    def metrics() -> dict[str, float]:
        lines = [line for line in server.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    label = f'{{model="{MODEL}"}}'
    before = metrics()
    server.client.completions.create(model=MODEL, prompt="3+4=", max_tokens=5)
    after = metrics()
    assert after[f"tinygpt_requests_total{label}"] == before.get(f"tinygpt_requests_total{label}", 0) + 1
    assert after[f"tinygpt_written_bytes_total{label}"] == before.get(f"tinygpt_written_bytes_total{label}", 0) + 5
    assert after[f"tinygpt_engine_up{label}"] == 1 and after[f"tinygpt_waiting_texts{label}"] == 0
    assert after[f"tinygpt_request_seconds_count{label}"] == after[f"tinygpt_requests_total{label}"]
