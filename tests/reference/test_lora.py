"""Adapters: what they compute, and that the base survives them to the bit."""

import math

import numpy as np
import pytest
import torch
from lora_lab import EVERYWHERE, MODEL, SEED, logits_of, make_model, random_adapter, random_tokens
from torch.nn import functional as F

from tinygpt.core.config import PROJECTIONS, LoraConfig, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import adapter_parameters
from tinygpt.engines.base import State
from tinygpt.kernels.init import initial_values
from tinygpt.reference.lora import (
    LoraLinear,
    adapted,
    base_weights,
    install,
    lora_parameters,
    merge,
    remove,
    set_adapter,
    unmerge,
)
from tinygpt.reference.model import GPT, flatten
from tinygpt.store.formats.adapter_file import merged_weights
from tinygpt.store.formats.checkpoint import weights_sha256


def apply_lora(model: GPT, lora: LoraConfig, seed: int = SEED) -> None:
    install(model, lora, initial_values(RunConfig(model.config, TrainConfig(seed=seed), lora)))


def sha256(model: GPT) -> str:
    return weights_sha256(base_weights(model))


@pytest.mark.parametrize(
    ("config", "lora"),
    [
        (MODEL, EVERYWHERE),
        (
            MODEL.replace(activation="swiglu", biases="off", norm="rmsnorm", tied_head="off", kv_heads=1),
            LoraConfig(rank=2, targets="fc_gate,v_proj"),
        ),
    ],
    ids=["classic", "gated"],
)
def test_untrained_adapters_and_their_removal_change_no_bit_of_the_logits(config, lora):
    model = make_model(config=config)
    before = logits_of(model)
    apply_lora(model, lora)
    assert torch.equal(logits_of(model), before)
    remove(model)
    assert torch.equal(logits_of(model), before)


def test_a_projection_that_a_model_has_not_is_refused():
    with pytest.raises(TinyGPTError, match="this model has no fc_gate to adapt; it has q_proj, k_proj"):
        apply_lora(make_model(), LoraConfig(targets="q_proj,fc_gate"))


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
    apply_lora(other := make_model(), lora, seed=12)
    assert not np.array_equal(flatten(tensors), flatten(lora_parameters(other)))


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


def test_the_base_comes_back_to_the_byte_and_its_digest_never_changes():
    model, untouched = make_model(), make_model()
    base, digest = model.flat().tobytes(), sha256(model)
    set_adapter(model, random_adapter(model, 8))
    apart = logits_of(model)
    merge(model)
    merged = model.flat().tobytes()
    assert merged == merged_weights(MODEL, State(0, untouched.flat()), random_adapter(untouched, 8)).tobytes()
    assert merged != base and sha256(model) == digest
    merge(model)  # a second time changes nothing
    assert model.flat().tobytes() == merged
    for _ in range(2):
        unmerge(model)
        assert model.flat().tobytes() == base and sha256(model) == digest
        assert torch.equal(logits_of(model), apart)
    merge(model)
    remove(model)
    assert model.flat().tobytes() == base
    assert [(n, p.requires_grad) for n, p in model.named_parameters()] == [
        (n, p.requires_grad) for n, p in untouched.named_parameters()
    ]
    assert sha256(make_model(seed=SEED + 1)) != digest


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


def test_another_base_is_refused_and_the_adapters_in_place_stay():
    model = make_model()
    set_adapter(model, random_adapter(model, 13))
    before = logits_of(model)
    other = random_adapter(make_model(seed=SEED + 1), 14, name="of the other")
    with pytest.raises(TinyGPTError, match="'of the other' was trained on other base weights"):
        set_adapter(model, other)
    more_heads = MODEL.replace(heads=4)  # the same weights mean something else
    with pytest.raises(TinyGPTError, match=r"4 heads.*but this model is.*2 heads"):
        set_adapter(model, random_adapter(make_model(config=more_heads), 15))
    assert torch.equal(logits_of(model), before)
