"""Muon on the PyTorch engine, held to torch.optim.Muon with the latter's bfloat16 taken away, and to itself."""

import math

import numpy as np
import pytest
import torch

from tinygpt.core.config import TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.parameters import parameters
from tinygpt.core.names import hidden_matrices
from tinygpt.core.optimizers import muon as core_muon
from tinygpt.core.optimizers.schedule import learning_rate
from tinygpt.core.presets import preset
from tinygpt.core.rng import batch_offsets
from tinygpt.engines.base import State
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.model import GPT, flatten
from tinygpt.reference.muon import POLAR, QUINTIC, Muon, orthogonal
from tinygpt.store.formats.checkpoint import vectors_of

EPS32 = float(np.finfo(np.float32).eps)
SCHEDULED = {"schedule": "cosine", "warmup": 3, "steps": 9, "min_lr": 1e-4, "lr": 3e-3}
AMPLIFIED = 3.4445**5  # what five iterations make of a rounding in a direction that the gradient hardly has


@pytest.fixture
def config(little):
    return little.replace(optimizer="muon", weight_decay=0.3, momentum=0.95, **SCHEDULED)


@pytest.fixture
def torchs_muon_is_exact(monkeypatch):
    """torch.optim.Muon iterates in bfloat16 and nothing else; so it does in the dtype of the gradient."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)


def loaded(config, text, state=None, **options):
    engine = TorchEngine(config, state, device="cpu", threads=1, **options)
    run_now(engine.load_corpus(text, text))
    return engine


def trained(config, text, steps, state=None):
    engine = loaded(config, text, state)
    run_now(engine.train(steps))
    return run_now(engine.export_state())


def test_steps_of_matrices_are_torchs_in_float64(torchs_muon_is_exact):
    train = TrainConfig(optimizer="muon", momentum=0.8, weight_decay=0.2)
    shapes = [(7, 7), (20, 7), (7, 20), (7, 7), (1, 5)]
    start = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    ours, theirs = ([torch.nn.Parameter(w.clone()) for w in start] for _ in range(2))
    rate = torch.zeros((), dtype=torch.float64)
    rest = torch.nn.Parameter(torch.zeros(1))
    muon = Muon([{"params": [rest]}], matrices=ours, matrix_lr=rate, train=train, iterate_in=torch.float64)
    for matrix in ours:
        muon.state[matrix]["exp_avg"] = torch.zeros_like(matrix)
    torchs = torch.optim.Muon(theirs, weight_decay=train.weight_decay, momentum=train.momentum)
    for step in range(6):
        torchs.param_groups[0]["lr"] = 0.05 / (step + 1)
        rate.fill_(0.05 / (step + 1))
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a) * (0 if step == 3 else 1)
            b.grad = a.grad.clone()
        muon.step()
        torchs.step()
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(a, b, rtol=0, atol=AMPLIFIED * 100 * 2.0**-53)


@pytest.mark.parametrize("shape", [(48, 48), (96, 24), (24, 96)])
def test_singular_values_end_near_one_and_bfloat16_is_as_good_as_torchs(shape):
    x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(1))
    exact = orthogonal(x.double(), [QUINTIC] * 5, torch.float64)
    values = torch.linalg.svdvals(exact)
    assert values.max() < 1.3 and values.median() > 0.65
    theirs = torch.stack(
        [torch.optim._muon._zeropower_via_newtonschulz(g, (3.4445, -4.775, 2.0315), 5, 1e-7) for g in x]
    )
    off = (orthogonal(x, [QUINTIC] * 5, torch.bfloat16) - exact).norm()
    assert 0 < off < 1.2 * (theirs - exact).norm()


@pytest.mark.parametrize(
    "changes", [{}, {"grad_accum": 2, "activation": "swiglu"}, {"tied_head": "off", "ns_steps": 3, "kv_heads": 1}]
)
def test_a_step_is_torchs_muon_for_hidden_matrices_and_adamw_for_the_rest(config, noise, changes, torchs_muon_is_exact):
    config = config.replace(**changes)
    train, ctx = config.train, config.model.ctx
    engine = loaded(config, noise)
    model = GPT(config.model, run_now(engine.export_state()).w)
    hidden = [model.get_parameter(name) for name in hidden_matrices([row.name for row in parameters(config.model)])]
    assert len(hidden) == config.model.layers * (7 if config.model.activation == "swiglu" else 6)
    rest = [p for p in model.parameters() if not any(p is matrix for matrix in hidden)]
    muon = torch.optim.Muon(hidden, weight_decay=train.weight_decay, momentum=train.momentum, ns_steps=train.ns_steps)
    decayed = [{"params": [p], "weight_decay": train.weight_decay * (p.ndim >= 2)} for p in rest]
    adamw = torch.optim.AdamW(decayed, betas=(train.beta1, train.beta2), eps=train.eps)
    for step in range(1, 8):
        rows = batch_offsets(train.seed, step, train.batch * train.grad_accum, len(noise), ctx)
        x = torch.tensor([list(noise[o : o + ctx + 1]) for o in rows])
        model.zero_grad()
        model(x[:, :-1], x[:, 1:])[1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train.grad_clip)
        rate = learning_rate(train, step)
        for group in muon.param_groups:
            group["lr"] = train.matrix_lr * rate / train.lr
        for group in adamw.param_groups:
            group["lr"] = rate
        muon.step()
        adamw.step()
        run_now(engine.train(1))
    state = run_now(engine.export_state())
    reached = sum(learning_rate(train, step) for step in range(1, 8)) / train.lr * train.matrix_lr
    assert np.abs(state.w - model.flat()).max() < reached * AMPLIFIED * 8 * EPS32
    names = hidden_matrices([row.name for row in parameters(config.model)])
    of_matrices = np.concatenate([np.full(row.size, row.name in names) for row in parameters(config.model)])
    assert not state.slots["v"][of_matrices].any() and state.slots["v"][~of_matrices].any()
    kept = flatten([muon.state[matrix]["momentum_buffer"] for matrix in hidden])
    assert np.allclose(state.slots["m"][of_matrices], kept, rtol=0, atol=1e-3 * np.abs(kept).max())


def test_a_resumed_run_is_the_same_to_the_bit(config, noise):
    whole, half = trained(config, noise, 9), trained(config, noise, 4)
    kept = State(half.step, half.w.copy(), {name: half.slots[name].copy() for name in half.slots})
    again = trained(config, noise, 5, kept)
    assert [v.tobytes() for v in vectors_of(again)] == [v.tobytes() for v in vectors_of(whole)]


def test_bf16_iterates_in_bf16_and_keeps_float32(config, noise):
    half = loaded(config, noise, precision="bf16")
    assert half.optimizer.iterate_in == torch.bfloat16
    run_now(half.train(3))
    full = trained(config, noise, 3)
    state = run_now(half.export_state())
    assert (state.w.view(np.uint32) & 0xFFFF).any()
    assert 0 < np.abs(state.w - full.w).max() < config.train.matrix_lr


@pytest.mark.parametrize("kind", ["bigram", "recurrent"])
def test_a_model_without_hidden_matrices_is_trained_by_adamw_alone(noise, kind):
    config = preset("tiny").replace(kind=kind, optimizer="muon")
    adamw = trained(config.replace(optimizer="adamw"), noise, 3)
    assert trained(config, noise, 3).w.tobytes() == adamw.w.tobytes()
    assert math.isfinite(adamw.w.sum())


@pytest.mark.parametrize(("steps", "least", "low", "high"), [(3, 0.01, 0.73, 1.27), (4, 0.004, 0.87, 1.13)])
def test_few_polynomials_bring_singular_values_near_one(steps, least, low, high):
    assert {n: tuple(map(tuple, POLAR[n])) for n in POLAR} == core_muon.POLAR
    x = torch.logspace(math.log10(least), 0, 1000, dtype=torch.float64)
    for a, b, c in POLAR[steps]:
        x = a * x + b * x**3 + c * x**5
    assert low < x.min() and x.max() < high
