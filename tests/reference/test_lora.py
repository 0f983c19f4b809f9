"""Adapters: what they compute, that the base survives them to the bit, their training, and their file."""

import copy
import json
import math
import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tinygpt.core.config import PROJECTIONS, LoraConfig, ModelConfig, RunConfig, SampleConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import preset
from tinygpt.core.rng import batch_offsets
from tinygpt.core.run.contract import run_now
from tinygpt.core.run.trainer import Host, Trainer
from tinygpt.engines.base import State
from tinygpt.formats import load_safetensors, save_safetensors
from tinygpt.formats.checkpoint import Checkpoint
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.engine import TorchEngine
from tinygpt.reference.lora import (
    ADAPTER_KEY,
    Adapter,
    LoraEngine,
    LoraLinear,
    adapted,
    adapter_parameters,
    apply_lora,
    base_sha256,
    compare,
    initial_adapter,
    load_adapter,
    lora_parameters,
    merge,
    remove,
    save_adapter,
    set_adapter,
    unmerge,
)
from tinygpt.reference.model import GPT, flatten

MODEL = ModelConfig(layers=2, d_model=24, heads=2, ctx=16)
EVERYWHERE = LoraConfig(rank=3, alpha=6.0, targets=",".join(name for name in PROJECTIONS if name != "fc_gate"))
SEED = 7
CPU = {"device": "cpu", "precision": "float32"}
HEADER_AT = 8  # a safetensors file: 8 bytes of length, the header, the tensors


def make_model(seed: int = SEED, config: ModelConfig = MODEL) -> GPT:
    return GPT(config, initial_weights(config, seed))


def random_tokens(rows: int = 3, T: int = MODEL.ctx) -> torch.Tensor:
    return torch.randint(0, 256, (rows, T), generator=torch.Generator().manual_seed(1))


def logits_of(model: GPT) -> torch.Tensor:
    with torch.no_grad():
        return model(random_tokens())


def random_adapter(model: GPT, seed: int, lora: LoraConfig = EVERYWHERE, name: str = "wild") -> Adapter:
    """As if trained: neither A nor B is zero."""
    rows = adapter_parameters(model.config, lora)
    w = np.random.default_rng(seed).normal(0, 0.1, rows[-1].offset + rows[-1].size).astype(np.float32)
    return Adapter(name, lora, base_sha256(model), Checkpoint(RunConfig(model.config, TrainConfig()), State(5, w)))


# What they compute


def test_untrained_adapters_change_no_bit_of_the_logits():
    model = make_model()
    before = logits_of(model)
    apply_lora(model, EVERYWHERE, seed=1)
    assert torch.equal(logits_of(model), before)


def test_adapters_stand_on_the_targets_only_and_start_by_the_rule():
    model = make_model()
    lora = LoraConfig(rank=4, targets="v_proj, fc_in")
    apply_lora(model, lora, seed=11)
    assert [name for name, _ in adapted(model)] == [
        "blocks.0.attn.v_proj",
        "blocks.0.mlp.fc_in",
        "blocks.1.attn.v_proj",
        "blocks.1.mlp.fc_in",
    ]
    rows = adapter_parameters(MODEL, lora)
    tensors = lora_parameters(model)
    assert [tuple(tensor.shape) for tensor in tensors] == [row.shape for row in rows]
    assert [tuple(row.shape) for row in rows[:4]] == [(4, 24), (24, 4), (4, 24), (96, 4)]
    for row, tensor in zip(rows, tensors, strict=True):
        if row.name.endswith("lora_A"):
            assert abs(tensor.std().item() * math.sqrt(24) - 1) < 0.35, row.name  # 96 draws: 5 standard errors
        else:
            assert not tensor.any(), row.name
    flat = initial_adapter(MODEL, lora, seed=11)
    assert np.array_equal(flatten(tensors), flat)
    assert not np.array_equal(flat, initial_adapter(MODEL, lora, seed=12))


def test_a_model_with_other_projections_is_adapted_as_far_as_it_has_them():
    gated = MODEL.replace(activation="swiglu", biases="off", norm="rmsnorm", tied_head="off")
    model = make_model(config=gated)
    plain = logits_of(model)
    apply_lora(model, LoraConfig(rank=2, targets="fc_gate,v_proj"), SEED)
    assert torch.equal(logits_of(model), plain)
    remove(model)
    assert torch.equal(logits_of(model), plain)
    with pytest.raises(TinyGPTError, match="this model has no fc_gate to adapt; it has q_proj, k_proj"):
        apply_lora(make_model(), LoraConfig(targets="q_proj,fc_gate"), SEED)


def test_an_adapter_adds_its_product():
    model = make_model().double()
    set_adapter(model, random_adapter(model, 3))
    x = torch.randn(5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    layer = model.blocks[1].mlp.fc_in
    delta = layer.lora_B @ layer.lora_A * (EVERYWHERE.alpha / EVERYWHERE.rank)
    expected = F.linear(x, layer.weight + delta, layer.bias)
    assert torch.allclose(layer(x), expected, rtol=1e-13, atol=1e-13)


def test_adapter_gradients_equal_finite_differences():
    model = make_model(config=ModelConfig(layers=1, d_model=6, heads=2, ctx=5, activation="swiglu")).double()
    lora = LoraConfig(rank=2, targets=",".join(PROJECTIONS))
    set_adapter(model, random_adapter(model, 4, lora))
    windows = random_tokens(2, 6)

    def loss() -> torch.Tensor:
        return model(windows[:, :-1], windows[:, 1:])[1]

    loss().backward()
    step = 1e-5  # of error step² from the formula and 1e-16 / step from rounding
    for tensor in lora_parameters(model):
        flat = tensor.data.view(-1)
        for i in range(0, flat.numel(), 3):
            kept = flat[i].item()
            with torch.no_grad():
                flat[i] = kept + step
                above = loss().item()
                flat[i] = kept - step
                below = loss().item()
            flat[i] = kept
            assert tensor.grad.view(-1)[i].item() == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-9)


def test_only_adapters_receive_gradients():
    model = make_model()
    set_adapter(model, random_adapter(model, 5))
    tokens = random_tokens()
    model(tokens, tokens)[1].backward()
    with_gradient = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert with_gradient and all(".lora_" in name for name in with_gradient)
    assert len(with_gradient) == len(adapter_parameters(MODEL, EVERYWHERE)) == 2 * 6 * MODEL.layers


# Merging, removing, swapping


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_merged_projection_equals_the_adapted_one_to_rounding(dtype):
    """|fl(Σ n terms) - Σ| <= n u Σ|terms| in any order, u being half of eps. Adapted: `inputs` + 1 terms with W and b,
    `inputs` + rank with A and B, then scale and sum. Merged: W rounded once, then `inputs` + 1 terms."""
    model = make_model().to(dtype)
    set_adapter(model, random_adapter(model, 6))
    for name, layer in adapted(model):
        inputs = layer.weight.size(1)
        x = torch.randn(8, inputs, dtype=dtype, generator=torch.Generator().manual_seed(3))
        with torch.no_grad():
            w, b, la, lb = (t.double().abs() for t in (layer.weight, layer.bias, layer.lora_A, layer.lora_B))
            terms = x.double().abs() @ w.T + b + x.double().abs() @ la.T @ lb.T * layer.scale
            bound = (2 * (inputs + 1) + (inputs + EVERYWHERE.rank) + 5) * torch.finfo(dtype).eps / 2 * terms
            before = layer(x)
            merge(model)
            assert (layer(x).double() - before.double()).abs().le(bound).all(), name
            assert layer(x).double().sub(F.linear(x, layer.original, layer.bias).double()).abs().max() > bound.max()
            unmerge(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_merged_model_equals_the_adapted_one_to_rounding(dtype):
    """Errors are relative to the residual stream, which LayerNorm keeps relative, and there are so many roundings
    in a row: per layer two norms over C, inner products of C (q, o, fc_in), head_size, T and 4 C; then the head."""
    model = make_model().to(dtype)
    base = logits_of(model)
    set_adapter(model, random_adapter(model, 7))
    adapted_logits = logits_of(model)
    C = MODEL.d_model
    roundings = MODEL.layers * (2 * 2 * C + 3 * C + MODEL.head_size + MODEL.ctx + 4 * C) + 3 * C
    tolerance = roundings * torch.finfo(dtype).eps / 2 * adapted_logits.abs().max().item()
    merge(model)
    assert not any(layer.original is None for _, layer in adapted(model))
    assert (logits_of(model) - adapted_logits).abs().max() < tolerance
    assert (base - adapted_logits).abs().max() > 100 * tolerance
    plain = GPT(MODEL, model.flat()).to(dtype)
    if dtype == torch.float32:
        assert torch.equal(logits_of(plain), logits_of(model))


def test_unmerging_restores_every_byte():
    model = make_model()
    base = model.flat().tobytes()
    set_adapter(model, random_adapter(model, 8))
    apart = logits_of(model)
    merge(model)
    merged = model.flat().tobytes()
    assert merged != base
    merge(model)  # a second time changes nothing
    assert model.flat().tobytes() == merged
    unmerge(model)
    assert model.flat().tobytes() == base
    assert torch.equal(logits_of(model), apart)
    unmerge(model)
    assert model.flat().tobytes() == base


def test_the_base_digest_does_not_depend_on_adapters():
    model = make_model()
    digest = base_sha256(model)
    set_adapter(model, random_adapter(model, 9))
    assert base_sha256(model) == digest
    merge(model)
    assert base_sha256(model) == digest
    assert base_sha256(make_model(seed=SEED + 1)) != digest


def test_swapping_gives_each_models_exact_logits():
    model = make_model()
    weight = model.blocks[0].attn.q_proj.weight
    none = logits_of(model)
    first = random_adapter(model, 10)
    second = random_adapter(model, 11, LoraConfig(rank=1, targets="q_proj,fc_out"))
    wanted = []
    for adapter in (first, second):
        fresh = make_model()
        set_adapter(fresh, adapter)
        wanted.append(logits_of(fresh))

    for merging in (False, True):
        set_adapter(model, first)
        assert torch.equal(logits_of(model), wanted[0])
        if merging:
            merge(model)
        set_adapter(model, second)
        assert torch.equal(logits_of(model), wanted[1])
        if merging:
            merge(model)
        set_adapter(model, None)
        assert torch.equal(logits_of(model), none)
    assert model.blocks[0].attn.q_proj.weight is weight  # the base was not loaded anew
    assert not any(isinstance(module, LoraLinear) for module in model.modules())


def test_remove_leaves_a_plain_trainable_model():
    model, untouched = make_model(), make_model()
    set_adapter(model, random_adapter(model, 12))
    merge(model)
    remove(model)
    assert [(n, p.requires_grad) for n, p in model.named_parameters()] == [
        (n, p.requires_grad) for n, p in untouched.named_parameters()
    ]
    assert model.flat().tobytes() == untouched.flat().tobytes()


def test_another_base_is_refused_and_the_adapters_in_place_stay():
    model = make_model()
    set_adapter(model, random_adapter(model, 13))
    before = logits_of(model)
    other = random_adapter(make_model(seed=SEED + 1), 14, name="of the other")
    with pytest.raises(TinyGPTError, match="'of the other' was trained on other base weights"):
        set_adapter(model, other)
    more_heads = MODEL.replace(heads=4)  # the same weights mean something else
    with pytest.raises(TinyGPTError, match=r"heads=4.*but this model is.*heads=2"):
        set_adapter(model, random_adapter(make_model(config=more_heads), 15))
    assert torch.equal(logits_of(model), before)


# Training


RUN = RunConfig(
    MODEL,
    TrainConfig(batch=8, steps=60, lr=1e-2, eval_every=20, eval_batches=2, sample_every=0, checkpoint_every=30, seed=5),
)
LORA = LoraConfig(rank=4, alpha=8.0, targets="q_proj,v_proj,fc_in,fc_out")
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
    engine = TorchEngine(RUN.replace(steps=80, lr=3e-3), **CPU)
    train(engine, FIRST_TEXT, config=engine.config)
    return engine.model.flat()


@pytest.fixture(scope="module")
def trained(base) -> tuple[LoraEngine, KeepingHost]:
    engine = LoraEngine(RUN, base, LORA, **CPU)
    return engine, train(engine, OTHER_TEXT)


def adapter_of(engine: LoraEngine, state: State, progress=None) -> Adapter:
    run = Checkpoint(engine.config, state, backend=engine.name, data={"name": "jugs"})
    return Adapter(
        "jugs", engine.lora, engine.base_sha256, run if progress is None else replace(run, progress=progress)
    )


def test_training_learns_another_text_and_leaves_the_base_alone(base, trained):
    engine, host = trained
    assert len(host.losses) == RUN.train.steps
    assert np.mean(host.losses[-5:]) < 0.6 * host.losses[0]
    assert engine.model.flat().tobytes() == base.tobytes()


def test_nothing_is_made_for_the_frozen_base(base, monkeypatch):
    """No start values are drawn that the base would overwrite, and no moments for what is not trained."""
    monkeypatch.setattr("tinygpt.reference.engine.initial_weights", None)
    engine = LoraEngine(RUN, base, LORA, **CPU)
    assert set(engine.optimizer.state) == set(lora_parameters(engine.model))


def test_a_step_is_clip_and_adamw_on_the_adapters(base):
    """The first step by hand: m = (1 - b1) g, v = (1 - b2) g², so the corrected ratio is g / (|g| + eps)."""
    lr = 1e-2
    config = RUN.replace(grad_clip=0.05, lr=lr)
    engine = LoraEngine(config, base, LORA, **CPU)
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
    resumed = LoraEngine(kept.run.config, base, kept.lora, **CPU)
    assert resumed.base_sha256 == kept.base_sha256
    run_now(resumed.import_state(kept.run.state))
    later = train(resumed, OTHER_TEXT, progress=kept.run.progress)
    assert later.losses == host.losses[30:]
    whole, rest = host.saves[-1], later.saves[-1]
    assert whole[0].step == rest[0].step == 60
    assert whole[0].w.tobytes() == rest[0].w.tobytes()
    for name in ("m", "v"):
        assert whole[0].slots[name].tobytes() == rest[0].slots[name].tobytes(), name
    assert whole[1].as_dict() == rest[1].as_dict()


def test_state_without_moments_starts_the_optimizer_afresh(base, trained):
    engine = LoraEngine(RUN, base, LORA, **CPU)
    run_now(engine.import_state(State(0, trained[1].saves[-1][0].w)))
    state = run_now(engine.export_state())
    assert np.array_equal(state.w, trained[1].saves[-1][0].w)
    assert not state.slots["m"].any() and not state.slots["v"].any()
    with pytest.raises(TinyGPTError, match="of a model with other settings"):
        run_now(engine.import_state(State(0, np.zeros(parameter_count(MODEL), dtype=np.float32))))


def test_compare_puts_base_and_adapted_side_by_side(base, trained):
    engine = TorchEngine(RUN, State(0, base), **CPU)
    adapter = adapter_of(trained[0], trained[1].saves[-1][0])
    draws = SampleConfig(tokens=40, seed=3)
    plain, adapted_one = run_now(compare(engine, adapter, OTHER_TEXT, b"pack", draws))
    assert adapted_one.loss < 0.6 * plain.loss
    assert len(plain.sample) == len(adapted_one.sample) == 40 and plain.sample != adapted_one.sample
    again = run_now(compare(engine, adapter, OTHER_TEXT, b"pack", draws))
    assert again == (plain, adapted_one)


# The file


def test_a_file_holds_the_adapters_alone(tmp_path, trained):
    engine, host = trained
    state, progress = host.saves[-1]
    path = tmp_path / "jugs.safetensors"
    save_adapter(path, adapter_of(engine, state, progress))
    assert path.stat().st_size < state.w.nbytes + 4096
    adapter = load_adapter(path)
    assert (adapter.name, adapter.lora, adapter.base_sha256) == ("jugs", LORA, engine.base_sha256)
    assert adapter.run.config == RUN
    assert (adapter.run.state.step, adapter.run.backend, adapter.run.data) == (60, "torch-lora", {"name": "jugs"})
    assert adapter.run.progress.loss == progress.loss
    assert adapter.run.state.w.tobytes() == state.w.tobytes()
    assert not adapter.run.state.slots
    assert list(tmp_path.iterdir()) == [path]  # no partial file stays behind


@pytest.mark.parametrize(("rank", "kilobytes"), [(1, 20), (8, 133)])
def test_small_presets_file_is_small(tmp_path, rank, kilobytes):
    config = preset("small")
    lora = LoraConfig(rank=rank)
    w = initial_adapter(config.model, lora, 1)
    path = tmp_path / "a.safetensors"
    save_adapter(path, Adapter("small", lora, "0" * 64, Checkpoint(config, State(1500, w))))
    assert path.stat().st_size < kilobytes * 1000
    assert path.stat().st_size < 0.1 * 4 * parameter_count(config.model)


def test_a_loaded_adapter_computes_what_the_trained_engine_does(tmp_path, base, trained):
    path = tmp_path / "jugs.safetensors"
    save_adapter(path, adapter_of(trained[0], trained[1].saves[-1][0]))
    model = GPT(MODEL, base)
    set_adapter(model, load_adapter(path))
    assert torch.equal(logits_of(model), logits_of(trained[0].model))
    with pytest.raises(TinyGPTError, match="trained on other base weights"):
        set_adapter(make_model(), load_adapter(path))


def test_an_adapter_that_diverged_is_not_written(tmp_path):
    adapter = random_adapter(make_model(), 16)
    adapter.run.state.w[5] = np.nan
    path = tmp_path / "a.safetensors"
    with pytest.raises(TinyGPTError, match="NaN or infinity"):
        save_adapter(path, adapter)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TinyGPTError, match="there is no folder"):
        save_adapter(tmp_path / "missing" / "a.safetensors", random_adapter(make_model(), 16))


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "a.safetensors"
    save_adapter(path, random_adapter(make_model(), 17, LoraConfig(rank=1, targets="q_proj")))
    return path.read_bytes()


def refusal(path, raw: bytes) -> str:
    """The one sentence for a bad file, once it is known that little was allocated on the way to it."""
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(TinyGPTError) as caught:
            load_adapter(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ") and str(caught.value).isprintable()
    return str(caught.value)


def rewritten(raw: bytes, change) -> bytes:
    """The file with `change` done to its header (parsed) and its description (parsed)."""
    length = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[HEADER_AT : HEADER_AT + length])
    description = json.loads(header["__metadata__"][ADAPTER_KEY])
    change(header, description)
    header["__metadata__"].setdefault(ADAPTER_KEY, "")
    header["__metadata__"][ADAPTER_KEY] = json.dumps(description)
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + raw[HEADER_AT + length :]


def test_faults_in_a_file_are_named(tmp_path, good):
    path = tmp_path / "a.safetensors"

    def told(change) -> str:
        return refusal(path, rewritten(good, change))

    assert load_adapter_from(path, rewritten(good, lambda header, about: None)).name == "wild"
    assert "no sound safetensors file" in refusal(path, b"")
    assert "no sound safetensors file" in refusal(path, good[:-4])
    assert "4194304 is the most" in refusal(path, b"\xff" * 8 + good[8:])
    assert "lora must be a JSON object" in told(lambda header, about: about.pop("lora"))
    assert "lora.rank must be a number" in told(lambda header, about: about["lora"].pop("rank"))
    assert "must have shape [4096, 24]" in told(lambda header, about: about["lora"].update(rank=4096))
    assert "did you mean 'q_proj'" in told(lambda header, about: about["lora"].update(targets="q_pro"))
    assert "more than 200 characters" in told(lambda header, about: about["lora"].update(targets="x" * 1_000_000))
    assert "lacks the tensor" in told(lambda header, about: about["lora"].update(targets="q_proj,k_proj"))
    assert "lacks the tensor" in told(lambda header, about: about["config"].update(layers=1024))
    assert "holds the tensor" in told(lambda header, about: about["config"].update(layers=1))
    assert "must have shape [1, 65536]" in told(
        lambda header, about: about["config"].update(dModel=65536, dMlp=None, heads=1)
    )
    assert "baseSha256 must be text" in told(lambda header, about: about["lora"].pop("baseSha256"))
    assert "step must be" in told(lambda header, about: about.update(step=-1))
    assert "NaN or infinity" in refusal(path, good[:-4] + struct.pack("<f", math.nan))
    path.unlink()
    with pytest.raises(TinyGPTError, match="there is no such file"):
        load_adapter(path)


def load_adapter_from(path, raw: bytes) -> Adapter:
    path.write_bytes(raw)
    return load_adapter(path)


def test_models_and_adapters_are_not_taken_for_each_other(tmp_path, good):
    path = tmp_path / "a.safetensors"
    save_safetensors(path, Checkpoint(RunConfig(MODEL, TrainConfig()), State(0, initial_weights(MODEL, 1))))
    with pytest.raises(TinyGPTError, match="this is no adapter"):
        load_adapter(path)
    path.write_bytes(good)
    with pytest.raises(TinyGPTError):
        load_safetensors(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_end_in_a_traceback(tmp_path, good, data):
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))]
    try:
        load_adapter_from(tmp_path / "a.safetensors", bytes(raw))
    except TinyGPTError as fault:
        assert str(fault).isprintable()
