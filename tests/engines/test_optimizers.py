"""Optimizers as values: the settings' names, SGD against torch.optim.SGD and across engines, states by named slots."""

import json

import numpy as np
import pytest
import torch
from gpu_here import MISSING, gpu_here

from tinygpt.bench.parity import parity
from tinygpt.core.config import TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops.flat import part
from tinygpt.core.optimizers import OPTIMIZERS, optimizer_of
from tinygpt.core.passes import program_of
from tinygpt.core.plan.verify import verify
from tinygpt.core.presets import preset
from tinygpt.core.tab.session import Session
from tinygpt.engines.base import State, terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.kernels.spec import SPEC
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.optimizers import KEYS
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt
from tinygpt.store.formats.checkpoint import vectors_of
from tinygpt.store.formats.tinygpt_file import read_header

TEXT = np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8).tobytes()
ADAMW = preset("tiny").replace(layers=1, d_model=24, heads=3, ctx=11, batch=3)
SGD = ADAMW.replace(optimizer="sgd", lr=0.1, weight_decay=0.5, schedule="cosine", warmup=2, steps=12)
STEPS = 20
# A step of either side rounds its weights, momentum and update by some ten operations of 2^-53 each.
TOLERANCE = STEPS * 2 * 10 * 2.0**-53


def webgpu_engine(config):
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return terminal_engine(config, WebGPUMachine(gpu=gpu_here()))


def trained(config, steps, state=None):
    engine = native_engine(config, state, threads=1)
    run_now(engine.load_corpus(TEXT, TEXT))
    run_now(engine.train(steps))
    return run_now(engine.export_state())


def state_bytes(state):
    return [state.step, list(state.slots), *[vector.tobytes() for vector in vectors_of(state)]]


def test_the_settings_name_every_optimizer():
    (field,) = [field for field in TrainConfig.FIELDS if field.name == "optimizer"]
    assert sorted(field.choices) == sorted(OPTIMIZERS) == sorted(KEYS)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_as_it_says(name):
    config = ADAMW.replace(optimizer=name)
    optimizer, memory = optimizer_of(config.train), Memory(config, len(TEXT), len(TEXT))
    assert [slot.name for slot in memory.slots] == list(optimizer.slots) == list(KEYS[name])
    assert len(optimizer.rates_of(config.train, 1)) == memory.rates.shape[1]
    for mode in all_modes(config):
        verify(program_of(mode, config, memory))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decayed, rest", [(12, 5), (1, 0), (0, 3)])
def test_sgd_is_torchs_with_decoupled_decay(momentum, decayed, rest):
    random, P = np.random.default_rng(5), decayed + rest
    weights, m, norm = random.normal(size=P), np.zeros(P), np.array([2.0, 0.5])
    theirs = torch.tensor(weights, requires_grad=True)
    optimizer = torch.optim.SGD([theirs], momentum=momentum)
    rates, counters = np.full((3, 2), np.nan), np.zeros(4, int)
    for t in range(STEPS):
        lr, decay, grads = 0.1 / (t + 1), 0.02, random.normal(size=P)
        with torch.no_grad():
            theirs[:decayed] *= 1 - decay
        theirs.grad = torch.tensor(grads * norm[1])
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()

        rates[...], counters[0] = np.nan, t
        rates[t % 3] = lr, decay
        given = {"grads": grads, "norm": norm, "rates": rates, "counters": counters, "weights": weights, "m": m}
        SPEC["sgd"](**given, P=P, decayed=decayed, rows=3, momentum=momentum)
        wanted = theirs.detach().numpy()
        assert np.abs(weights - wanted).max() <= TOLERANCE * np.abs(wanted).max()


@pytest.mark.parametrize("changes", [{}, {"grad_accum": 2, "momentum": 0.5}], ids=["plain", "accumulated"])
def test_native_and_torch_train_with_sgd_as_the_spec_does(changes):
    config = SGD.replace(**changes)
    for engine in (native_engine(config, threads=2), TorchEngine(config, device="cpu", threads=1)):
        assert parity(config, engine, spec_engine(config, dtype=np.float64), steps=10).drift < 1e-6
        state = run_now(engine.export_state())
        assert list(state.slots) == ["m"] and state.slots["m"].any()


@pytest.mark.xdist_group("wgpu")
def test_webgpu_trains_with_sgd_as_the_spec_does():
    webgpu, spec = webgpu_engine(SGD), spec_engine(SGD, dtype=np.float64)
    assert parity(SGD, webgpu, spec, steps=4).drift < 1e-6
    state, wanted = run_now(webgpu.export_state()), run_now(spec.export_state())
    np.testing.assert_allclose(state.slots["m"], wanted.slots["m"], atol=1e-5 * np.abs(wanted.slots["m"]).max())


MUON = ADAMW.replace(optimizer="muon", lr=3e-3, weight_decay=0.3, schedule="cosine", warmup=2, steps=60)


def test_native_and_torch_train_with_muon_as_the_spec_does_over_50_steps():
    config = MUON.replace(layers=2, d_model=30, activation="swiglu")
    for engine in (native_engine(config, threads=2), TorchEngine(config, device="cpu", threads=1)):
        assert parity(config, engine, spec_engine(config, dtype=np.float64), steps=50).drift < 1e-5


def test_native_and_torch_train_other_models_with_muon_alike():
    """Muon's kernels know the matrices of a transformer's blocks; those of other models are AdamW's, on both sides."""
    config = preset("tiny", "modern").replace(kind="recurrent")
    torch_engine = TorchEngine(config, device="cpu", threads=1)
    assert parity(config, native_engine(config, threads=1), torch_engine, steps=20).drift < 1e-5


@pytest.mark.parametrize("layers", [1, 2])  # matrices that threads share, and enough for each to have some of its own
def test_threads_do_not_change_a_bit_of_muon(layers):
    states = []
    for threads in (1, 2, 5):
        engine = native_engine(MUON.replace(layers=layers, d_model=72), threads=threads)
        run_now(engine.load_corpus(TEXT, TEXT))
        run_now(engine.train(2))
        states.append(state_bytes(run_now(engine.export_state())))
    assert states[0] == states[1] == states[2]


@pytest.mark.xdist_group("wgpu")
@pytest.mark.slow
def test_muon_takes_the_segments_of_a_gpu_of_small_bindings_apart(monkeypatch):
    if gpu_here() is not None:
        small_bindings(monkeypatch)
    config, losses = MUON.replace(layers=3), []
    webgpu = webgpu_engine(config)
    for engine in (webgpu, spec_engine(config, dtype=np.float64)):
        run_now(engine.load_corpus(TEXT, TEXT))
        run_now(engine.train(5))
        losses.append([row.loss for row in run_now(engine.read_metrics())])
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert len(webgpu.lowered.segments) > 2


def by_stretches(p, config, memory):
    """SGD over the flat vectors in two parts, cut between two tensors of the stretch that decays."""
    (m,), layout = memory.slots, memory.layout
    cut = layout.places[1].start
    assert 0 < cut < layout.decayed < layout.size
    for start, size, decayed in ((0, cut, cut), (cut, layout.size - cut, layout.decayed - cut)):
        vectors = {"grads": memory.grads, "weights": memory.weights, "m": m}
        p.call(
            "sgd", norm=memory.norm, rates=memory.rates, counters=memory.counters, P=size, decayed=decayed,
            rows=memory.rates.shape[0], momentum=config.train.momentum,
            **{name: part(vectors[name], start, size) for name in vectors},
        )  # fmt: skip


@pytest.mark.xdist_group("wgpu")
@pytest.mark.parametrize("place", ["native", "webgpu", "a GPU of small bindings"])
def test_an_optimizer_may_treat_stretches_of_the_parameters_apart(place, monkeypatch):
    if place == "a GPU of small bindings" and gpu_here() is not None:
        small_bindings(monkeypatch)

    states = []
    for update in (OPTIMIZERS["sgd"].update, by_stretches):
        monkeypatch.setitem(OPTIMIZERS, "sgd", OPTIMIZERS["sgd"]._replace(update=update))
        engine = native_engine(SGD, threads=2) if place == "native" else webgpu_engine(SGD)
        run_now(engine.load_corpus(TEXT, TEXT))
        run_now(engine.train(3))
        states.append(state_bytes(run_now(engine.export_state())))
        if place == "a GPU of small bindings":
            assert len(engine.lowered.segments) > 1
    assert states[0] == states[1]


def small_bindings(monkeypatch):
    describe = type(gpu_here()).describe

    def described(gpu):
        device = describe(gpu)
        device.max_binding = device.max_buffer = 40 * 1024
        return device

    monkeypatch.setattr(type(gpu_here()), "describe", described)


def test_a_run_with_sgd_goes_on_to_the_bit_from_its_file(tmp_path):
    whole = trained(SGD, 9)
    save_tinygpt(tmp_path / "a.tinygpt", Checkpoint(SGD, trained(SGD, 4)))
    header = read_header(tmp_path / "a.tinygpt")
    assert header["slots"] == ["m"] and header["includesOptimizerState"] is True
    kept = load_tinygpt(tmp_path / "a.tinygpt")
    assert kept.config == SGD and not kept.left_out
    assert state_bytes(trained(SGD, 5, kept.state)) == state_bytes(whole)


def test_torch_goes_on_from_natives_sgd():
    state = trained(SGD, 4)
    engine = TorchEngine(SGD, state, device="cpu", threads=1)
    assert state_bytes(run_now(engine.export_state())) == state_bytes(state)


@pytest.mark.parametrize("make", [native_engine, TorchEngine])
def test_what_another_optimizer_kept_is_refused_and_its_weights_are_taken(make):
    state = trained(SGD, 2)
    with pytest.raises(TinyGPTError, match="keeps m trained this model, but adamw keeps m, v; go on with the same"):
        make(ADAMW, state, threads=1)
    fresh = run_now(make(ADAMW, State(2, state.w), threads=1).export_state())
    assert fresh.w.tobytes() == state.w.tobytes()


def test_a_run_that_goes_on_keeps_its_optimizer():
    with pytest.raises(TinyGPTError, match="keeps its optimizer: adamw cannot become sgd"):
        ADAMW.going_on(optimizer="sgd")


def test_a_tab_goes_on_with_what_its_optimizer_kept_and_writes_with_any_weights():
    def request(config, slots, size):
        origin = {"config": config.as_dict(), "progress": {"step": 4}, "slots": slots}
        return json.dumps({"changes": {}, "origin": origin, "bytes": size})

    session = Session(request(SGD, ["m"], len(TEXT)))
    assert session.state_bytes == 8 * session.parameters
    assert json.loads(session.header_text())["slots"] == ["m"]
    assert Session(request(SGD, [], len(TEXT))).trains
    writing = Session(request(ADAMW, ["m"], None))
    assert json.loads(writing.stands())["slots"] == ["m"]
    with pytest.raises(TinyGPTError, match="but adamw keeps m, v"):
        Session(request(ADAMW, ["m"], len(TEXT)))
