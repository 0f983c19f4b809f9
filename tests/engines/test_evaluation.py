"""Evaluation: every byte but the first once, with the context it is promised. Engines' losses: test_conformance.py."""

import math

import numpy as np
import pytest
from engine_lab import TEXT

from tinygpt.core.config import LN_VOCAB
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.engines.base import State
from tinygpt.engines.evaluation import evaluate, window_starts
from tinygpt.engines.native import native_engine
from tinygpt.kernels.init import initial_weights

CTX = 6
CONFIG = preset("tiny").replace(layers=2, d_model=24, heads=3, ctx=CTX, batch=4)
LENGTHS = (2, 3, CTX, CTX + 1, CTX + 2, 2 * CTX, 4 * CTX, 4 * CTX + 1, 101)


class ContextGiven(Engine):
    """Answers with the context a byte was predicted from, and checks which byte it is asked about."""

    def __init__(self, config):
        self.config = config

    async def window_losses(self, windows):
        T = len(windows[0]) - 1
        assert self.config.train.batch >= len(windows) and self.config.model.ctx >= T
        for window in windows:
            assert window == bytes(range(window[0], window[0] + T + 1))
        return [[t + 1 + 100.0 * window[t] for t in range(T)] for window in windows]


@pytest.mark.parametrize("ctx", [1, 2, 5, 6])
@pytest.mark.parametrize("length", [2, 3, 6, 7, 8, 20, 37])
def test_every_byte_but_the_first_is_scored_once_and_from_half_a_window(ctx, length):
    scorer = ContextGiven(CONFIG.replace(ctx=ctx, batch=3))
    per_byte = run_now(evaluate(scorer, bytes(range(length)))).per_byte
    context = per_byte - 100 * np.arange(length - 1)  # byte i + 1 is predicted by the row of byte i
    assert per_byte.shape == (length - 1,)
    for i, given in enumerate(context):
        assert given == i + 1 if i < ctx else given >= ctx - ctx // 2


def test_windows_do_not_run_past_the_text():
    assert list(window_starts(7, 6)) == [0]
    assert list(window_starts(8, 6)) == [0, 1]
    assert list(window_starts(14, 6)) == [0, 3, 6, 7]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_text_of_any_length(length):
    engine = native_engine(CONFIG, State(0, initial_weights(CONFIG.model, 1) * 8), threads=1)
    text = TEXT[:length]
    result = run_now(evaluate(engine, text))
    T = min(CTX, length - 1)
    first, last = run_now(engine.window_losses([text[: T + 1], text[length - 1 - T :]]))
    assert result.per_byte[:T].tolist() == pytest.approx(first, rel=1e-6)
    assert result.per_byte[-1] == pytest.approx(last[-1], rel=1e-6)
    assert result.loss == pytest.approx(result.per_byte.astype(np.float64).mean(), rel=1e-12)
    assert result.perplexity == pytest.approx(math.exp(result.loss))
    assert result.bits_per_byte == pytest.approx(result.loss / math.log(2))


def test_an_untrained_model_needs_eight_bits_a_byte():
    result = run_now(evaluate(native_engine(CONFIG), TEXT[:300]))
    assert result.loss == pytest.approx(LN_VOCAB, abs=0.02)
    assert result.bits_per_byte == pytest.approx(8, abs=0.03)
    assert result.perplexity == pytest.approx(256, rel=0.02)


def test_one_byte_is_too_few():
    with pytest.raises(TinyGPTError, match="it takes 2"):
        run_now(evaluate(native_engine(CONFIG), b"a"))
