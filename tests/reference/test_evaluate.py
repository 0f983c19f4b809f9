"""Evaluation: every byte but the first once, with the context it is promised, and numbers that agree."""

import math

import numpy as np
import pytest
import torch

from tinygpt.core.config import LN_VOCAB, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.evaluate import evaluate, score, window_starts
from tinygpt.reference.model import GPT

CONFIG = ModelConfig(layers=1, d_model=16, heads=2, ctx=6)


@pytest.fixture
def model() -> GPT:
    return GPT(CONFIG, initial_weights(CONFIG, 1) * 8)


@pytest.mark.parametrize("ctx", [1, 2, 5, 6])
@pytest.mark.parametrize("length", [2, 3, 6, 7, 8, 20, 37])
def test_every_byte_but_the_first_is_scored_once_and_from_half_a_window(ctx, length):
    """A scorer that answers with the context it was given, and checks which byte it is asked about."""
    text = bytes(range(length))

    def context_given(windows):
        T = windows.shape[1] - 1
        assert 1 <= T <= ctx and (np.diff(windows.astype(int)) == 1).all()
        return np.tile(np.arange(1, T + 1, dtype=np.float32), (len(windows), 1)) + windows[:, :-1] * 100.0

    per_byte = score(context_given, ctx, text, batch=3).per_byte
    context = per_byte - 100 * np.arange(length - 1)  # byte i + 1 is predicted by the row of byte i
    assert per_byte.shape == (length - 1,)
    for i, given in enumerate(context):
        assert given == i + 1 if i < ctx else given >= ctx - ctx // 2


def test_windows_do_not_run_past_the_text():
    assert list(window_starts(7, 6)) == [0]
    assert list(window_starts(8, 6)) == [0, 1]
    assert list(window_starts(14, 6)) == [0, 3, 6, 7]


def test_losses_are_those_of_the_model(model, noise):
    text = noise[:50]
    result = evaluate(model, text, batch=4)
    x = torch.tensor([list(text[:7])])
    first = torch.log_softmax(model(x[:, :-1]), -1).gather(-1, x[:, 1:, None])[0, :, 0]
    assert np.allclose(result.per_byte[:6], -first.detach().numpy(), rtol=1e-5)
    x = torch.tensor([list(text[-7:])])
    last = torch.log_softmax(model(x[:, :-1]), -1)[0, -1, text[-1]]
    assert result.per_byte[-1] == pytest.approx(-last.item(), rel=1e-5)
    assert result.per_byte.dtype == np.float32
    assert result.loss == pytest.approx(result.per_byte.astype(np.float64).mean(), rel=1e-12)
    assert result.perplexity == pytest.approx(math.exp(result.loss))
    assert result.bits_per_byte == pytest.approx(result.loss / math.log(2))
    assert np.allclose(evaluate(model, text, batch=1).per_byte, result.per_byte, rtol=1e-5)


def test_an_untrained_model_needs_eight_bits_a_byte(noise):
    model = GPT(CONFIG, initial_weights(CONFIG, 1))
    result = evaluate(model, noise)
    assert result.loss == pytest.approx(LN_VOCAB, abs=0.01)
    assert result.bits_per_byte == pytest.approx(8, abs=0.02)
    assert result.perplexity == pytest.approx(256, rel=0.01)


def test_one_byte_is_too_few(model):
    with pytest.raises(TinyGPTError, match="it takes 2"):
        evaluate(model, b"a")
