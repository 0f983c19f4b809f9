"""How likely a model finds each byte of a text: what `logprobs` asks for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.engines.evaluation import window_starts

Rows = npt.NDArray[np.float64]
FIRST = b"\n"  # is read before a text that has nothing before it


class Scorer:
    """It has an engine of its own, opened when it is first asked: the writer's is busy with its texts."""

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        self.open_engine = open_engine
        self.engine: Engine | None = None
        self.lock = Lock()

    def score(self, text: bytes) -> Rows:
        """[len(text) - 1, 256]: the logarithm of each byte's probability after text[:1], text[:2], …

        Windows are those of `tinygpt eval`: from the second on, each byte is predicted from at least half of one.
        """
        with self.lock:
            if self.engine is None:
                self.engine = self.open_engine()
            try:
                return log_softmax(run_now(read(self.engine, text)))
            except BaseException:
                self.drop()
                raise

    def drop(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            run_now(engine.close())

    def close(self) -> None:
        with self.lock:
            self.drop()


async def read(engine: Engine, text: bytes) -> Rows:
    logits = np.empty((len(text) - 1, 256))
    T = min(engine.config.model.ctx, len(text) - 1)
    done = 0
    for start in window_starts(len(text), T):
        for place in range(done, start + T):
            known = engine.prefill(text[start : place + 1]) if place == done else engine.decode(text[place])
            logits[place] = await known
        done = start + T
    return logits


def log_softmax(logits: Rows) -> Rows:
    above = logits - logits.max(axis=-1, keepdims=True)
    out: Rows = above - np.log(np.exp(above).sum(axis=-1, keepdims=True))
    return out


class Scored(NamedTuple):
    """A byte of an answer."""

    byte: int
    logprob: float | None  # None of a first byte, which nothing is before
    top: list[tuple[int, float]]  # the most likely ones in its place


def scored(scorer: Scorer, prompt: bytes, written: bytes, echo: bool, count: int) -> list[Scored]:
    """Of each byte that the model wrote and, with `echo`, of the prompt's."""
    shown = (prompt if echo else b"") + written
    text = (prompt or FIRST) + written
    rows = scorer.score(text) if len(text) > 1 else np.empty((0, 256))
    answer: list[Scored] = []
    for i in range(len(shown)):
        place = len(text) - len(shown) + i - 1  # of the row that predicts it
        if place < 0:
            answer.append(Scored(shown[i], None, []))
            continue
        likely = np.argsort(-rows[place], kind="stable")[:count]
        answer.append(Scored(shown[i], float(rows[place][shown[i]]), [(int(b), float(rows[place][b])) for b in likely]))
    return answer


def token(byte: int) -> str:
    """As OpenAI writes tokens that are no whole characters."""
    return chr(byte) if byte < 128 else f"bytes:\\x{byte:02x}"


def of_completion(rows: list[Scored]) -> dict[str, Any]:
    return {
        "tokens": [token(row.byte) for row in rows],
        "token_logprobs": [row.logprob for row in rows],
        "top_logprobs": [
            None if row.logprob is None else {token(byte): value for byte, value in row.top} for row in rows
        ],
        "text_offset": list(range(len(rows))),
    }


def of_chat(rows: list[Scored]) -> dict[str, Any]:
    def told(byte: int, value: float | None) -> dict[str, Any]:
        return {"token": token(byte), "logprob": value, "bytes": [byte]}

    content = [{**told(row.byte, row.logprob), "top_logprobs": [told(*one) for one in row.top]} for row in rows]
    return {"content": content, "refusal": None}
