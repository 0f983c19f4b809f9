"""Evaluation: every byte but the first once, with the context it is promised, and the same on every engine."""

import math

import numpy as np
import pytest
import torch
from gpu_here import webgpu

from tinygpt.core.config import LN_VOCAB, VOCAB, preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.trainer import run_now
from tinygpt.engines.base import Engine, State
from tinygpt.engines.native import NativeEngine
from tinygpt.engines.spec import SpecEngine
from tinygpt.evaluation import evaluate, window_starts
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.model import GPT

CTX = 6
CONFIG = preset("tiny").replace(layers=2, d_model=24, heads=3, ctx=CTX, batch=4)
TRAINED = State(0, initial_weights(CONFIG.model, 1) * 8)  # far from knowing nothing
TEXT = np.random.default_rng(0).integers(0, VOCAB, 300, dtype=np.uint8).tobytes()
LENGTHS = (2, 3, CTX, CTX + 1, CTX + 2, 2 * CTX, 4 * CTX, 4 * CTX + 1, 101)

ENGINES = {
    "spec": lambda *given: SpecEngine(*given, dtype=np.float64),
    "native": lambda *given: NativeEngine(*given, threads=1),
    "torch": lambda *given: TorchEngine(*given, device="cpu", threads=1),
    "webgpu": webgpu,
}


class ContextGiven(Engine):
    """Answers with the context a byte was predicted from, and checks which byte it is asked about."""

    async def window_losses(self, windows):
        B, T = len(windows), windows.shape[1] - 1
        assert self.config.train.batch >= B and self.config.model.ctx >= T
        assert (np.diff(windows.astype(int)) == 1).all()
        return np.tile(np.arange(1, T + 1, dtype=np.float32), (B, 1)) + windows[:, :-1] * 100.0


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return ENGINES[request.param](CONFIG, TRAINED)


def plain_losses(windows):
    """In float64, by PyTorch's own functions; and the largest logit."""
    model = GPT(CONFIG.model, TRAINED.w).double()
    tokens = torch.tensor(windows).long()
    with torch.no_grad():
        logits = model(tokens[:, :-1])
    losses = -torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None])[:, :, 0]
    return losses.numpy(), logits.abs().max().item()


def tolerance(engine, largest_logit):
    """Of a loss, which is a difference of numbers no larger than twice the largest logit: what one rounding to float32
    does and, where float32 is computed in, the roundings of all sums on the way, n of which add up as sqrt(n) does.
    """
    C, layers = CONFIG.model.d_model, CONFIG.model.layers
    terms = layers * (2 * C + C + CTX + C + C + 4 * C) + C + C + VOCAB
    roundings = 1 if engine.name == "spec" else math.sqrt(terms)
    return roundings * 2.0**-24 * 2 * (largest_logit + LN_VOCAB)


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


@pytest.mark.parametrize("T", [1, 2, CTX - 1, CTX])
@pytest.mark.parametrize("B", [1, 3, 4, 5, 8, 11])
def test_losses_are_those_of_a_plain_pytorch_model(engine, B, T):
    windows = np.frombuffer(TEXT, dtype=np.uint8)[: B * (T + 1)].reshape(B, T + 1)
    losses = run_now(engine.window_losses(windows))
    expected, largest_logit = plain_losses(windows)
    assert losses.dtype == np.float32
    np.testing.assert_allclose(losses, expected, rtol=0, atol=tolerance(engine, largest_logit))


def test_no_windows_have_no_losses(engine):
    assert run_now(engine.window_losses(np.zeros((0, 3), dtype=np.uint8))).shape == (0, 2)


@pytest.mark.parametrize("shape", [(2, 1), (2, CTX + 2), (CTX,)])
def test_other_windows_are_refused(engine, shape):
    with pytest.raises(TinyGPTError, match=f"rows of 2 to {CTX + 1} bytes"):
        run_now(engine.window_losses(np.zeros(shape, dtype=np.uint8)))


def test_it_changes_nothing(engine):
    before = run_now(engine.export_state())
    logits = run_now(engine.prefill(b"abc"))
    after_d = run_now(engine.decode(ord("d")))
    assert run_now(engine.prefill(b"abc")) == logits
    run_now(evaluate(engine, TEXT))
    assert run_now(engine.decode(ord("d"))) == after_d
    for a, b in zip(before[1:], run_now(engine.export_state())[1:], strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("length", LENGTHS)
def test_a_text_of_any_length(engine, length):
    text = TEXT[:length]
    result = run_now(evaluate(engine, text))
    T = min(CTX, length - 1)
    data = np.frombuffer(text, dtype=np.uint8)
    expected, largest_logit = plain_losses(np.stack([data[: T + 1], data[length - 1 - T :]]))
    bound = tolerance(engine, largest_logit)
    np.testing.assert_allclose(result.per_byte[:T], expected[0], rtol=0, atol=bound)
    assert result.per_byte[-1] == pytest.approx(expected[1, -1], abs=bound)
    assert result.loss == pytest.approx(result.per_byte.astype(np.float64).mean(), rel=1e-12)
    assert result.perplexity == pytest.approx(math.exp(result.loss))
    assert result.bits_per_byte == pytest.approx(result.loss / math.log(2))


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_an_untrained_model_needs_eight_bits_a_byte(make):
    result = run_now(evaluate(make(CONFIG), TEXT))
    assert result.loss == pytest.approx(LN_VOCAB, abs=0.02)
    assert result.bits_per_byte == pytest.approx(8, abs=0.03)
    assert result.perplexity == pytest.approx(256, rel=0.02)


def test_one_byte_is_too_few(engine):
    with pytest.raises(TinyGPTError, match="it takes 2"):
        run_now(evaluate(engine, b"a"))
