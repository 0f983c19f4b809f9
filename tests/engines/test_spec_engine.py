"""The program replayed on NumPy in float64 against PyTorch's autograd: the loss and every gradient."""

import numpy as np
import pytest
import torch

from tinygpt.core.config import preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.core.trainer import run_now
from tinygpt.engines.spec import SpecEngine
from tinygpt.reference.model import GPT

RELATIVE = 1e-9
TEXT = np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8).tobytes()

ODD_CONFIGS = [
    {"layers": 2, "d_model": 24, "heads": 3, "ctx": 11, "batch": 3},
    {"layers": 1, "d_model": 15, "heads": 5, "ctx": 7, "batch": 1},
    {"layers": 3, "d_model": 20, "heads": 2, "ctx": 33, "batch": 2},
    {"layers": 1, "d_model": 1, "heads": 1, "ctx": 1, "batch": 1},
    {"layers": 2, "d_model": 14, "heads": 7, "ctx": 65, "batch": 2},
]


def started(changes, dtype=np.float64):
    """A spec engine away from its start values (where many gradients are tiny), and the same model in PyTorch."""
    config = preset("tiny").replace(**changes)
    engine = SpecEngine(config, dtype=dtype)
    run_now(engine.load_corpus(TEXT, TEXT))
    w = engine.in_file_order(engine.view(engine.memory.weights)).astype(np.float64)
    w += np.random.default_rng(1).normal(0, 0.1, w.shape)
    engine.spread(w, engine.view(engine.memory.weights))
    model = GPT(config.model, w.astype(np.float32)).double()
    model.load_flat(w)
    return config, engine, model


def windows(config, offsets):
    ctx = config.model.ctx
    x = torch.tensor([list(TEXT[o : o + ctx]) for o in offsets])
    y = torch.tensor([list(TEXT[o + 1 : o + ctx + 1]) for o in offsets])
    return x, y


def offsets_for(config):
    return [7 * i + 3 for i in range(config.train.batch * config.train.grad_accum)]


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
    offsets = offsets_for(config)
    _, loss = model(*windows(config, offsets))
    loss.backward()
    run_now(engine.train_step(1, 3e-4, offsets))
    (metrics,) = run_now(engine.read_metrics())
    assert metrics.loss == pytest.approx(loss.item(), rel=RELATIVE)
    assert metrics.grad_norm == pytest.approx(float(np.linalg.norm(model.flat_grad())), rel=RELATIVE)
    assert_gradients_equal(config, engine.in_file_order(engine.view(engine.memory.grads)), model.flat_grad())


def test_validation_counts_each_window_once_however_many_there_are():
    config, engine, model = started(ODD_CONFIGS[0])
    for count in (1, 3, 7):
        offsets = [11 * i for i in range(count)]
        _, loss = model(*windows(config, offsets))
        assert run_now(engine.eval_loss(offsets)) == pytest.approx(loss.item(), rel=RELATIVE)


@pytest.mark.parametrize("changes", ODD_CONFIGS)
def test_prefill_and_decode_give_the_models_logits(changes):
    config, engine, model = started(changes)
    window = TEXT[: config.model.ctx]
    with torch.no_grad():
        expected = model(torch.tensor([list(window)]))[0].numpy()
    prompt = (len(window) + 1) // 2
    rows = [run_now(engine.prefill(window[:prompt]))]
    rows += [run_now(engine.decode(token)) for token in window[prompt:]]
    np.testing.assert_allclose(np.array(rows), expected[prompt - 1 :], rtol=0, atol=1e-9 * np.abs(expected).max())


def test_state_goes_out_and_in_unchanged():
    config, engine, _ = started(ODD_CONFIGS[0], np.float32)
    run_now(engine.train_step(1, 3e-4, offsets_for(config)))
    state = run_now(engine.export_state())
    other = SpecEngine(config)
    run_now(other.import_state(state))
    again = run_now(other.export_state())
    assert again.step == state.step == 1
    for a, b in zip(state[1:], again[1:], strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda e: e.train_step(1, 3e-4, [0]), "a step takes 3 windows, not 1"),
        (lambda e: e.train_step(1, 3e-4, [0, 1, len(TEXT) - 11]), "does not lie inside the corpus"),
        (lambda e: e.train_step(1, 3e-4, [0, 1, -1]), "does not lie inside the corpus"),
        (lambda e: e.prefill(b""), "1 to 11 bytes, not 0"),
        (lambda e: e.prefill(b"a" * 12), "1 to 11 bytes, not 12"),
        (lambda e: e.decode(256), "0 to 255, not 256"),
        (lambda e: e.decode(-1), "0 to 255, not -1"),
    ],
)
def test_bad_input_is_refused_before_a_kernel_sees_it(call, says):
    _, engine, _ = started(ODD_CONFIGS[0])
    with pytest.raises(TinyGPTError, match=says):
        run_now(call(engine))


def test_a_full_context_is_refused():
    _, engine, _ = started(ODD_CONFIGS[0])
    run_now(engine.prefill(b"a" * 11))
    with pytest.raises(TinyGPTError, match="is full"):
        run_now(engine.decode(1))
