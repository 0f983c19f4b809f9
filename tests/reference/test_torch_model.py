"""The PyTorch model: names, start, loss, causality, KV cache, and its whole gradient against finite differences."""

import math

import numpy as np
import pytest
import torch

from tinygpt.core.config import LN_VOCAB, ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.presets import preset
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.model import GPT
from tinygpt.reference.modules import Cache

CONFIG = ModelConfig(layers=2, d_model=12, heads=3, ctx=7)


def lively() -> GPT:
    """Start values under noise: no bias is 0, no gain is 1, and attention and GELU are far from linear."""
    w = initial_weights(CONFIG, seed=5)
    return GPT(CONFIG, w + np.random.default_rng(2).normal(0, 0.25, w.size)).double()


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).integers(0, 256, (rows, length)))


def test_parameters_are_those_of_core_by_name_and_shape():
    model = GPT(CONFIG, initial_weights(CONFIG, 1))
    named = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert named == {row.name: row.shape for row in parameters(CONFIG)}


def test_the_flat_vector_goes_in_and_out_in_core_order():
    w = np.arange(parameter_count(CONFIG), dtype=np.float32)
    model = GPT(CONFIG, w)
    assert np.array_equal(model.flat(), w)
    for row in parameters(CONFIG):
        held = model.get_parameter(row.name).detach().numpy().reshape(-1)
        assert np.array_equal(held, w[row.offset : row.offset + row.size])
    with pytest.raises(TinyGPTError, match="other settings"):
        model.load_flat(w[:-1])


def test_building_a_model_draws_nothing_from_torchs_generator():
    before = torch.get_rng_state()
    GPT(CONFIG, initial_weights(CONFIG, 1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["tiny", "small", "large"])
def test_an_untrained_model_knows_nothing(name):
    config = preset(name).model
    model = GPT(config, initial_weights(config, 1337))
    x = tokens(4, config.ctx + 1)
    with torch.no_grad():
        _, loss = model(x[:, :-1], x[:, 1:])
    # Logits of std s add about s^2 / 2 to ln 256 on targets that are independent of them; here s^2 = 0.0004 d_model.
    expected = LN_VOCAB + 0.0002 * config.d_model
    spread = math.sqrt(0.0004 * config.d_model / x[:, 1:].numel())
    assert abs(loss.item() - expected) < 4 * spread + 0.01


def test_the_loss_is_the_mean_of_minus_log_softmax_and_the_head_is_tied():
    model = lively()
    x = tokens(2, CONFIG.ctx + 1)
    logits, loss = model(x[:, :-1], x[:, 1:])
    p = torch.softmax(logits, -1).gather(-1, x[:, 1:, None])
    assert loss.item() == pytest.approx(-p.log().mean().item(), rel=1e-12)
    assert logits.shape == (2, CONFIG.ctx, 256)
    with torch.no_grad():
        model.token_embedding.weight[0] *= 2  # byte 0 is not among these tokens: only its logit may change
    assert 0 not in x
    again = model(x[:, :-1])
    assert torch.allclose(again[..., 0], 2 * logits[..., 0]) and torch.equal(again[..., 1:], logits[..., 1:])


def test_no_logit_depends_on_a_later_byte():
    model = lively()
    x = tokens(1, CONFIG.ctx)
    base = model(x)
    for i in range(CONFIG.ctx):
        changed = x.clone()
        changed[0, i] = (x[0, i] + 1) % 256
        moved = (model(changed) - base).abs().amax(-1)[0]
        assert (moved[:i] == 0).all()
        assert (moved[i:] > 0).all()


@pytest.mark.parametrize("prompt", range(1, CONFIG.ctx + 1))
@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_the_cache_gives_the_logits_of_reading_everything_again(prompt, chunk):
    model = lively().float()
    x = tokens(2, CONFIG.ctx)
    whole = model(x)
    cache = Cache(CONFIG.layers)
    pieces = [model(x[:, :prompt], cache=cache)]
    for at in range(prompt, CONFIG.ctx, chunk):
        pieces.append(model(x[:, at : at + chunk], cache=cache))
    assert cache.length == CONFIG.ctx
    assert (torch.cat(pieces, 1) - whole).abs().max() < 1e-5


def test_more_tokens_than_the_context_are_refused():
    model, cache = lively(), Cache(CONFIG.layers)
    with pytest.raises(ValueError, match="do not fit this model's context of 7"):
        model(tokens(1, CONFIG.ctx + 1))
    model(tokens(1, CONFIG.ctx), cache=cache)
    with pytest.raises(ValueError, match="8 tokens"):
        model(tokens(1, 1), cache=cache)


class Difference:
    """Central differences of the loss in float64, with the error bound that two step sizes give.

    D(h) = f' + h^2 f'''/6 + ..., so (D(2h) - D(h)) / 3 estimates D(h)'s truncation error; (4 D(h) - D(2h)) / 3
    removes it up to O(h^4). Rounding adds about eps |f| / h, a few times over for the sums inside f.
    """

    h = 1e-4

    def __init__(self, model: GPT, x: torch.Tensor) -> None:
        self.model, self.x, self.w = model, x, model.flat()

    def loss(self, w: np.ndarray) -> float:
        self.model.load_flat(w)
        with torch.no_grad():
            return self.model(self.x[:, :-1], self.x[:, 1:])[1].item()

    def along(self, direction: np.ndarray) -> tuple[float, float]:
        h = self.h
        near = (self.loss(self.w + h * direction) - self.loss(self.w - h * direction)) / (2 * h)
        far = (self.loss(self.w + 2 * h * direction) - self.loss(self.w - 2 * h * direction)) / (4 * h)
        rounding = 32 * np.finfo(np.float64).eps * self.loss(self.w) / h
        return (4 * near - far) / 3, abs(far - near) / 30 + rounding


def test_the_whole_gradient_is_that_of_finite_differences():
    model = lively()
    x = tokens(3, CONFIG.ctx + 1)
    model(x[:, :-1], x[:, 1:])[1].backward()
    gradient = model.flat_grad()
    difference = Difference(model, x)
    generator = np.random.default_rng(7)
    directions = [generator.standard_normal(gradient.size) / math.sqrt(gradient.size) for _ in range(5)]
    for row in parameters(CONFIG):
        inside = gradient[row.offset : row.offset + row.size]
        for entry in {int(np.abs(inside).argmax()), *generator.integers(0, row.size, 2)}:
            directions.append(np.eye(1, gradient.size, row.offset + entry)[0])
    checked = 0
    for direction in directions:
        numeric, tolerance = difference.along(direction)
        exact = float(gradient @ direction)
        assert tolerance < 1e-6, "the bound is too loose to prove anything"
        assert abs(numeric - exact) < tolerance
        checked += abs(exact) > 100 * tolerance
    assert checked > 0.8 * len(directions)


def forward_by_hand(model: ModelConfig, w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Logits [T, 256] of one sequence, from the formulas alone."""
    p = {row.name: w[row.offset : row.offset + row.size].reshape(row.shape) for row in parameters(model)}

    def layernorm(name: str, a: np.ndarray) -> np.ndarray:
        centred = a - a.mean(-1, keepdims=True)
        rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred * rstd * p[name + ".weight"] + p[name + ".bias"]

    def linear(name: str, a: np.ndarray) -> np.ndarray:
        return a @ p[name + ".weight"].T + p[name + ".bias"]

    def attention(name: str, a: np.ndarray) -> np.ndarray:
        q, k, v = (linear(f"{name}.{which}_proj", a) for which in "qkv")
        out = np.zeros_like(a)
        D = model.head_size
        for head in range(model.heads):
            part = slice(head * D, (head + 1) * D)
            for t in range(len(a)):
                weights = np.exp(k[: t + 1, part] @ q[t, part] / math.sqrt(D))
                out[t, part] = weights @ v[: t + 1, part] / weights.sum()
        return linear(name + ".o_proj", out)

    def gelu(a: np.ndarray) -> np.ndarray:
        return a * np.vectorize(lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))))(a)

    stream = p["token_embedding.weight"][x] + p["position_embedding.weight"][: len(x)]
    for layer in range(model.layers):
        block = f"blocks.{layer}."
        stream = stream + attention(block + "attn", layernorm(block + "ln1", stream))
        hidden = gelu(linear(block + "mlp.fc_in", layernorm(block + "ln2", stream)))
        stream = stream + linear(block + "mlp.fc_out", hidden)
    return layernorm("ln_final", stream) @ p["token_embedding.weight"].T


def test_the_forward_pass_is_that_of_the_formulas():
    model = lively()
    x = tokens(1, CONFIG.ctx)
    expected = forward_by_hand(CONFIG, model.flat(), x[0].numpy())
    assert np.allclose(model(x)[0].detach().numpy(), expected, rtol=1e-12, atol=1e-12)
