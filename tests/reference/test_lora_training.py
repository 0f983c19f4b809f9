"""Training an adapter: its step, resuming, what it learns, and the file it leaves."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from lora_lab import MODEL, logits_of, make_model, random_adapter

from tinygpt.core.config import LoraConfig, RunConfig, SampleConfig, TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.rng import batch_offsets
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Trainer
from tinygpt.engines.base import State
from tinygpt.reference.distributed import torch_engine
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.lora import base_weights, lora_parameters, set_adapter
from tinygpt.reference.model import GPT, flatten
from tinygpt.store.formats.adapter_file import Adapter, load_adapter, save_adapter
from tinygpt.store.formats.checkpoint import Checkpoint, weights_sha256

CPU = {"device": "cpu", "precision": "float32"}
LORA = LoraConfig(rank=4, alpha=8.0, targets="q_proj,v_proj,fc_in,fc_out")
RUN = RunConfig(
    MODEL,
    TrainConfig(batch=8, steps=60, lr=1e-2, eval_every=20, eval_batches=2, sample_every=0, checkpoint_every=30, seed=5),
    LORA,
)
FIRST_TEXT = b"the quick brown fox jumps over the lazy dog. " * 40
OTHER_TEXT = b"pack my box with five dozen liquor jugs, and vex. " * 40


class KeepingHost(Host):
    def __init__(self):
        self.losses = []
        self.saves = []

    def now(self):
        return 0.0

    def emit(self, event):
        if event["event"] == "step":
            self.losses.append(event["loss"])

    async def save(self, kind, state, progress):
        if kind == "last":
            self.saves.append((state, copy.deepcopy(progress)))


def train(engine, text, progress=None, config=RUN) -> KeepingHost:
    host = KeepingHost()
    cut = len(text) * 9 // 10
    run_now(engine.load_corpus(text[:cut], text[cut:]))
    trainer = Trainer(config, engine, host, cut, len(text) - cut, progress, sample_settings=SampleConfig(tokens=8))
    run_now(trainer.run())
    return host


@pytest.fixture(scope="module")
def base() -> np.ndarray:
    """A model that has learnt one small text."""
    engine = TorchEngine(RunConfig(MODEL, RUN.train.replace(steps=80, lr=3e-3)), **CPU)
    train(engine, FIRST_TEXT, config=engine.config)
    return engine.model.flat()


@pytest.fixture(scope="module")
def trained(base) -> tuple[TorchEngine, KeepingHost]:
    engine = torch_engine(RUN, base=base, **CPU)
    return engine, train(engine, OTHER_TEXT)


def adapter_of(engine: TorchEngine, state: State, progress=None) -> Adapter:
    run = Checkpoint(engine.config, state, backend=engine.name, data={"name": "jugs"})
    return Adapter("jugs", sha256(engine), run if progress is None else replace(run, progress=progress))


def sha256(engine: TorchEngine) -> str:
    return weights_sha256(base_weights(engine.model))


def test_training_learns_another_text_and_leaves_the_base_alone(base, trained):
    engine, host = trained
    assert len(host.losses) == RUN.train.steps
    assert np.mean(host.losses[-5:]) < 0.6 * host.losses[0]
    assert engine.model.flat().tobytes() == base.tobytes()


def test_nothing_is_made_for_the_frozen_base(base, monkeypatch):
    """No start values are drawn that the base would overwrite, and no moments for what is not trained."""
    monkeypatch.setattr("tinygpt.reference.engine.initial_weights", None)
    engine = torch_engine(RUN, base=base, **CPU)
    assert set(engine.optimizer.state) == set(lora_parameters(engine.model))


def test_a_step_is_clip_and_adamw_on_the_adapters(base):
    """The first step by hand: m = (1 - b1) g, v = (1 - b2) g², so the corrected ratio is g / (|g| + eps)."""
    lr = 1e-2
    config = RUN.replace(grad_clip=0.05, lr=lr)
    engine = torch_engine(config, base=base, **CPU)
    model = GPT(MODEL, base)
    start = random_adapter(model, 18, LORA)  # where B is zero, A has no gradient, and where w is, decay does nothing
    set_adapter(model, start)
    run_now(engine.import_state(State(0, start.run.state.w)))
    train = config.train
    offsets = batch_offsets(train.seed, 1, train.batch * train.grad_accum, len(OTHER_TEXT), MODEL.ctx)
    text = np.frombuffer(OTHER_TEXT, dtype=np.uint8)
    windows = torch.from_numpy(np.stack([text[o : o + MODEL.ctx + 1] for o in offsets]).astype(np.int64))
    model(windows[:, :-1], windows[:, 1:])[1].backward()
    gradient = flatten([tensor.grad for tensor in lora_parameters(model)]).astype(np.float64)
    norm = math.sqrt((gradient**2).sum())
    assert norm > config.train.grad_clip
    clipped = gradient * config.train.grad_clip / (norm + 1e-6)
    w = flatten(lora_parameters(model)).astype(np.float64)
    expected = w * (1 - lr * config.train.weight_decay) - lr * clipped / (np.abs(clipped) + config.train.eps)

    run_now(engine.load_corpus(OTHER_TEXT, OTHER_TEXT))
    assert run_now(engine.train(1)) == 1
    metrics = run_now(engine.read_metrics())
    assert metrics[0].grad_norm == pytest.approx(norm, rel=1e-5)
    state = run_now(engine.export_state())
    steady = np.abs(clipped) > 1e-5  # below, g / |g| is not settled by float32's g
    assert steady.mean() > 0.4
    assert np.allclose(state.w[steady], expected[steady], rtol=1e-5, atol=1e-6)
    assert np.allclose(state.slots["m"], (1 - config.train.beta1) * clipped, rtol=1e-3, atol=1e-7)


def test_a_resumed_run_ends_with_the_same_bytes(base, trained, tmp_path):
    engine, host = trained
    state, progress = next(save for save in host.saves if save[0].step == 30)
    path = tmp_path / "checkpoint.safetensors"
    save_adapter(path, adapter_of(engine, state, progress), include_optimizer=True)

    kept = load_adapter(path)
    resumed = torch_engine(kept.run.config, kept.run.state, base, **CPU)
    assert sha256(resumed) == kept.base_sha256
    later = train(resumed, OTHER_TEXT, progress=kept.run.progress)
    assert later.losses == host.losses[30:]
    whole, rest = host.saves[-1], later.saves[-1]
    assert whole[0].step == rest[0].step == 60
    assert whole[0].w.tobytes() == rest[0].w.tobytes()
    for name in ("m", "v"):
        assert whole[0].slots[name].tobytes() == rest[0].slots[name].tobytes(), name
    assert whole[1].as_dict() == rest[1].as_dict()


def test_state_without_moments_starts_the_optimizer_afresh(base, trained):
    engine = torch_engine(RUN, base=base, **CPU)
    run_now(engine.import_state(State(0, trained[1].saves[-1][0].w)))
    state = run_now(engine.export_state())
    assert np.array_equal(state.w, trained[1].saves[-1][0].w)
    assert not state.slots["m"].any() and not state.slots["v"].any()
    with pytest.raises(TinyGPTError, match="of a model with other settings"):
        run_now(engine.import_state(State(0, np.zeros(parameter_count(MODEL), dtype=np.float32))))


def test_a_file_holds_the_adapters_alone(tmp_path, trained):
    engine, host = trained
    state, progress = host.saves[-1]
    path = tmp_path / "jugs.safetensors"
    save_adapter(path, adapter_of(engine, state, progress))
    assert path.stat().st_size < state.w.nbytes + 4096
    adapter = load_adapter(path)
    assert (adapter.name, adapter.lora, adapter.base_sha256) == ("jugs", LORA, sha256(engine))
    assert adapter.run.config == RUN
    assert (adapter.run.state.step, adapter.run.backend, adapter.run.data) == (60, "torch", {"name": "jugs"})
    assert adapter.run.progress.loss == progress.loss
    assert adapter.run.state.w.tobytes() == state.w.tobytes()
    assert not adapter.run.state.slots
    assert list(tmp_path.iterdir()) == [path]  # no partial file stays behind


def test_a_loaded_adapter_computes_what_the_trained_engine_does(tmp_path, base, trained):
    path = tmp_path / "jugs.safetensors"
    save_adapter(path, adapter_of(trained[0], trained[1].saves[-1][0]))
    model = GPT(MODEL, base)
    set_adapter(model, load_adapter(path))
    assert torch.equal(logits_of(model), logits_of(trained[0].model))
    with pytest.raises(TinyGPTError, match="trained on other base weights"):
        set_adapter(make_model(), load_adapter(path))
