"""The programs replayed on NumPy in float64 against PyTorch's autograd: the loss, every gradient, every logit."""

import numpy as np
import pytest
import torch
from engine_lab import TEXT

from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.parameters import parameters
from tinygpt.core.presets import preset
from tinygpt.core.rng import batch_offsets, eval_offsets
from tinygpt.core.train.validation import validate
from tinygpt.engines.base import State
from tinygpt.engines.spec import spec_engine
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.model import GPT

RELATIVE = 1e-9
ROUNDED = 1e-7  # where numbers leave the engine as float32

ODD_CONFIGS = [
    {"layers": 2, "d_model": 24, "heads": 3, "ctx": 11, "batch": 3},
    {"layers": 1, "d_model": 15, "heads": 5, "ctx": 7, "batch": 1},
    {"layers": 3, "d_model": 20, "heads": 2, "ctx": 33, "batch": 2},
    {"layers": 1, "d_model": 1, "heads": 1, "ctx": 1, "batch": 1},
    {"layers": 2, "d_model": 14, "heads": 7, "ctx": 65, "batch": 2},
]


def started(changes):
    """A spec engine away from its start values (where many gradients are tiny), and the same model in PyTorch."""
    config = preset("tiny").replace(**changes)
    w = initial_weights(config.model, 1) + np.random.default_rng(1).normal(
        0, 0.1, initial_weights(config.model, 1).size
    )
    state = State(0, w.astype(np.float32))
    engine = spec_engine(config, state, dtype=np.float64)
    run_now(engine.load_corpus(TEXT, TEXT[100:]))
    return config, engine, GPT(config.model, state.w).double()


def in_file_order(engine, name):
    flat, moves = engine.player.view(name), sorted(engine.lowered.memory.layout.moves, key=lambda move: move.offset)
    return np.concatenate([flat[move.start : move.start + move.size] for move in moves])


def loss_of(model, text, offsets, ctx):
    windows = torch.tensor([list(text[offset : offset + ctx + 1]) for offset in offsets])
    return model(windows[:, :-1], windows[:, 1:])[1]


def assert_gradients_equal(config, got, expected):
    largest = np.abs(expected).max()
    for p in parameters(config.model):
        a, b = got[p.offset : p.offset + p.size], expected[p.offset : p.offset + p.size]
        # Some gradients are 0 but for rounding: a bias on the keys shifts a row's scores alike and softmax cancels
        # it; one position has nothing to choose among; a norm over one value is constant.
        noise = np.abs(b).max() < 1e-12 * largest
        scale = largest if noise else np.abs(b).max()
        assert np.abs(a - b).max() <= RELATIVE * scale, p.name


@pytest.mark.parametrize("changes", [*ODD_CONFIGS, {**ODD_CONFIGS[0], "grad_accum": 3}])
def test_loss_and_every_gradient_equal_autograd(changes):
    """With accumulation too: the gradients are those of one large batch."""
    config, engine, model = started(changes)
    rows = config.train.batch * config.train.grad_accum
    loss = loss_of(
        model, TEXT, batch_offsets(config.train.seed, 1, rows, len(TEXT), config.model.ctx), config.model.ctx
    )
    loss.backward()
    assert run_now(engine.train(1)) == 1
    assert engine.player.view("loss")[0] == pytest.approx(loss.item(), rel=RELATIVE)
    norm = float(np.linalg.norm(model.flat_grad()))
    assert engine.player.view("norm")[0] == pytest.approx(norm, rel=RELATIVE)
    assert_gradients_equal(config, in_file_order(engine, "grads"), model.flat_grad())
    (metrics,) = run_now(engine.read_metrics())
    assert metrics[1:] == pytest.approx((loss.item(), norm), rel=ROUNDED)


@pytest.mark.parametrize("eval_batches", [1, 3])
def test_validation_is_the_mean_over_its_windows(eval_batches):
    config, engine, model = started({**ODD_CONFIGS[0], "eval_batches": eval_batches})
    text, rows, ctx = TEXT[100:], config.train.batch * eval_batches, config.model.ctx
    loss = loss_of(model, text, eval_offsets(config.train.seed, rows, len(text), ctx), ctx)
    for _ in range(2):  # and again from the start
        assert run_now(validate(engine)) == pytest.approx(loss.item(), rel=ROUNDED)


@pytest.mark.parametrize("changes", ODD_CONFIGS)
def test_prefill_and_decode_give_the_models_logits(changes):
    config, engine, model = started(changes)
    window = TEXT[: config.model.ctx]
    with torch.no_grad():
        expected = model(torch.tensor([list(window)]))[0].numpy()
    prompt, rows = (len(window) + 1) // 2, []
    run_now(engine.prefill(window[:prompt]))
    rows.append(engine.player.view("prompt_logits").copy())
    for token in window[prompt:]:
        run_now(engine.decode(token))
        rows.append(engine.player.view("next_logits").copy())
    np.testing.assert_allclose(np.array(rows), expected[prompt - 1 :], rtol=0, atol=1e-9 * np.abs(expected).max())
