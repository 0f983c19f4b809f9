"""Requests take turns on an engine's rows: a large one does not keep others waiting."""

from __future__ import annotations

from typing import Any

import pytest
from serving_helpers import MODEL, served


@pytest.mark.parametrize("rows", [1, 3])
def test_a_request_for_many_long_texts_lets_others_have_a_turn(rows: int) -> None:
    large: dict[str, Any] = {"model": MODEL, "prompt": "1+1=", "max_tokens": 100_000, "n": 16, "seed": 1}
    small: dict[str, Any] = {"model": MODEL, "prompt": "2+2=", "max_tokens": 100, "seed": 2}
    with served(rows=rows) as server:
        alone = server.client.completions.create(**small).choices[0].text
        with server.client.completions.create(**large, stream=True) as stream:
            next(iter(stream))
            for _ in range(2):
                assert server.client.completions.create(**small).choices[0].text == alone
            assert len(server.writer.writing) + len(server.writer.waiting) == 16  # not one of them has ended


def test_texts_that_took_turns_are_those_written_alone() -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "1+1=", "max_tokens": 300, "temperature": 1.0, "seed": 3}
    with served(rows=1) as server:
        alone = [server.client.completions.create(**asked | {"seed": seed}).choices[0].text for seed in (3, 4)]
        with server.client.completions.create(**asked | {"max_tokens": 100_000}, stream=True) as stream:
            events = iter(stream)
            written = next(events).choices[0].text
            assert server.client.completions.create(**asked | {"seed": 4}).choices[0].text == alone[1]
            while len(written) < 300:
                written += next(events).choices[0].text
    assert written[:300] == alone[0]
