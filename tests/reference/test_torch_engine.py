"""The PyTorch engine against the formulas of a step.

What it does as every engine does is in tests/engines/test_conformance.py.
"""

import math

import numpy as np
import pytest
import torch

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import preset
from tinygpt.core.rng import batch_offsets
from tinygpt.engines.base import State
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import RING, TorchEngine
from tinygpt.reference.model import GPT

EPS32 = float(np.finfo(np.float32).eps)


def loaded(config: RunConfig, text: bytes, **options) -> TorchEngine:
    engine = TorchEngine(config, device="cpu", **options)
    run_now(engine.load_corpus(text, text[: len(text) // 4]))
    return engine


def train(engine: TorchEngine, steps: int) -> list[float]:
    """The losses of so many more steps."""
    assert run_now(engine.train(steps)) == steps
    return [row.loss for row in run_now(engine.read_metrics())]


def windows(text: bytes, offsets: list[int], ctx: int) -> torch.Tensor:
    return torch.tensor([list(text[o : o + ctx + 1]) for o in offsets])


def adamw_by_hand(config: RunConfig, state: State, gradient: np.ndarray, lr: float) -> State:
    """One step in float64, as design.md states it."""
    c = config.train
    g, w, m, v = (a.astype(np.float64) for a in (gradient, state.w, state.slots["m"], state.slots["v"]))
    norm = math.sqrt((g**2).sum())
    if c.grad_clip:
        g *= min(1.0, c.grad_clip / (norm + 1e-6))
    step = state.step + 1
    m = c.beta1 * m + (1 - c.beta1) * g
    v = c.beta2 * v + (1 - c.beta2) * g**2
    update = (m / (1 - c.beta1**step)) / (np.sqrt(v / (1 - c.beta2**step)) + c.eps)
    decay = np.concatenate(
        [np.full(row.size, c.weight_decay if row.decay else 0.0) for row in parameters(config.model)]
    )
    return State(step, w - lr * decay * w - lr * update, {"m": m, "v": v})


@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_a_step_is_the_stated_clip_and_adamw(little, noise, clip, weight_decay):
    config = little.replace(grad_clip=clip, weight_decay=weight_decay, schedule="cosine", warmup=2, lr=0.02)
    engine = loaded(config, noise)
    for step in range(1, 6):
        before = run_now(engine.export_state())
        rate = learning_rate(config.train, step)
        offsets = batch_offsets(config.train.seed, step, config.train.batch, len(noise), config.model.ctx)
        model = GPT(config.model, before.w)
        x = windows(noise, offsets, config.model.ctx)
        model(x[:, :-1], x[:, 1:])[1].backward()
        gradient = model.flat_grad()
        assert run_now(engine.train(1)) == 1
        after = run_now(engine.export_state())
        expected = adamw_by_hand(config, before, gradient, rate)
        norm = math.sqrt((gradient.astype(np.float64) ** 2).sum())
        assert clip in (0.0, 1e6) or norm > clip, "the clip has nothing to do"
        assert run_now(engine.read_metrics())[0].grad_norm == pytest.approx(norm, rel=1e-5)
        assert after.step == step == expected.step
        # A handful of float32 roundings of each term; the clip's norm is a float32 sum.
        for name, rtol in (("m", 1e-5), ("v", 2e-5)):
            wanted = expected.slots[name]
            assert np.allclose(after.slots[name], wanted, rtol=rtol, atol=8 * EPS32 * np.abs(wanted).max())
        moved = np.abs(expected.w - before.w).max()
        assert np.abs(after.w - expected.w).max() < 4 * EPS32 * np.abs(before.w).max() + 1e-4 * moved


def test_only_tensors_of_two_or_more_dims_decay(little, noise):
    """With all gradients gone (moments 0, one huge clip), what moves is what decays."""
    config = little.replace(grad_clip=1e-30, weight_decay=0.5, lr=0.1)
    engine = loaded(config, noise)
    w = np.random.default_rng(1).normal(1, 0.1, initial_weights(config.model, 1).size).astype(np.float32)
    run_now(engine.import_state(State(0, w)))
    train(engine, 1)
    ratio = run_now(engine.export_state()).w / w
    for row in parameters(config.model):
        expected = 0.95 if len(row.shape) >= 2 else 1.0
        assert np.allclose(ratio[row.offset : row.offset + row.size], expected, rtol=4 * EPS32), row.name


def test_metrics_wait_in_order_however_seldom_they_are_read(little, noise):
    often, seldom = loaded(little, noise), loaded(little, noise)
    assert run_now(seldom.train(RING)) == RING and run_now(seldom.train(6)) == 6
    rows = run_now(seldom.read_metrics())
    assert [row.step for row in rows] == list(range(1, RING + 7))
    assert [row.loss for row in rows] == [train(often, 1)[0] for _ in rows]
    assert run_now(seldom.read_metrics()) == []


def test_bf16_rounds_the_arithmetic_and_not_the_weights(little, noise):
    half, full = loaded(little, noise, precision="bf16"), loaded(little, noise)
    a, b = train(half, 5), train(full, 5)
    assert a != b and np.allclose(a, b, rtol=0, atol=2**-8)  # bf16 keeps 8 bits
    state = run_now(half.export_state())
    assert state.w.dtype == np.float32 and (state.w.view(np.uint32) & 0xFFFF).any()


def test_threads_are_set(little):
    before = torch.get_num_threads()
    try:
        assert "2 threads" in TorchEngine(little, device="cpu", threads=2).describe()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_cannot_be_is_one_clear_sentence(little, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TinyGPTError, match="finds no cuda device here; choose --device cpu or auto"):
        TorchEngine(little, device="cuda")
    with pytest.raises(TinyGPTError, match="no device 'tpu'"):
        TorchEngine(little, device="tpu")
    with pytest.raises(TinyGPTError, match="no precision 'int4'"):
        TorchEngine(little, precision="int4")
    with pytest.raises(TinyGPTError, match="tf32 needs a CUDA device"):
        TorchEngine(little, device="cpu", precision="tf32")


@pytest.mark.slow
def test_a_machine_without_a_compiler_is_told_to_train_without(little, noise):
    import torch._inductor.config as inductor

    engine = loaded(little, noise, compile=True)
    message = r"no-such-compiler.*train without --compile"
    with (
        inductor.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}),
        pytest.raises(TinyGPTError, match=message),
    ):
        train(engine, 1)


@pytest.mark.slow
def test_compiled_on_the_cpu_it_trains_alike(little, noise):
    compiled, eager = loaded(little, noise, compile=True), loaded(little, noise)
    assert np.allclose(train(compiled, 8), train(eager, 8), rtol=0, atol=64 * EPS32)


@pytest.mark.parametrize("threads", [-5, 0, 100_000])
def test_a_senseless_number_of_threads_is_refused(threads):
    with pytest.raises(TinyGPTError, match=f"threads must be from 1 to [0-9]+, not {threads}"):
        TorchEngine(preset("tiny"), device="cpu", threads=threads)
