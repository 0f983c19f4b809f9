"""Looking inside: what core says of a model against PyTorch in float64, and what engines leave in watched tensors."""

import math

import numpy as np
import pytest
import torch
from engine_lab import CORPUS, bytes_of, state_of, uneven
from gpu_here import webgpu

from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.inside import (
    DIGITS,
    direction_of,
    kept_weights,
    look_backward,
    look_forward,
    looked_config,
    watched_run,
)
from tinygpt.core.look.watch import BINS, Watcher, summary, tensors_of
from tinygpt.core.models.parameters import parameters
from tinygpt.core.models.parts import part_names
from tinygpt.core.presets import preset
from tinygpt.engines.base import State
from tinygpt.engines.native import native_engine
from tinygpt.engines.spec import spec_engine
from tinygpt.inside.parts import scaled_weights
from tinygpt.reference.model import make_model
from tinygpt.reference.modules import alibi_bias

TEXT = b"to be, or n"
BASE = preset("tiny").replace(layers=2, d_model=24, heads=3, ctx=32, batch=3)
MODERN = {"norm": "rmsnorm", "positions": "rotary", "qk_norm": "on", "activation": "relu2", "biases": "off"}
MODELS = {
    "classic": {},
    "modern": MODERN,
    "post": {"norm_place": "post", "positions": "alibi", "tied_head": "off", "kv_heads": 1},
    "capped": {"logit_cap": 3.0, "activation": "swiglu", "kv_heads": 3, "average": 0.2, "dropout": 0.3},
    "bigram": {"kind": "bigram"},
    "recurrent": {"kind": "recurrent", "positions": "none"},
}
WITHOUT_ATTENTION = ("bigram", "recurrent")
SHOWN = 10.0 ** (1 - DIGITS)  # data is rounded to so many digits


def weights_of(config):
    w = uneven(config).w
    return w + np.random.default_rng(2).normal(0, 0.05, w.shape).astype(np.float32)


def looked_into(config, w, length, engine=spec_engine, **options):
    parts = [w[begin:end] for begin, end in kept_weights(config.model, length)]
    return engine(looked_config(config, length), State(0, np.concatenate(parts)), **options)


class Traced:
    """PyTorch's model on a text, with the residual stream after each part, and each head's softmax."""

    def __init__(self, config, w, text):
        self.model = make_model(config.model, w).double()
        self.text = torch.tensor([list(text)])
        self.stream, self.attention = [], []
        for block in getattr(self.model, "blocks", []):
            if config.model.kind == "gpt":
                block.attn.register_forward_hook(self.softmax_of)
        x = self.model.token_embedding(self.text)
        if config.model.kind == "bigram":
            self.logits = [x[0]]
            return
        if config.model.positions == "learned":
            x = x + self.model.position_embedding.weight[: len(text)]
        self.keep(x)
        for block in self.model.blocks:
            mixing = block.mix if config.model.kind == "recurrent" else block.attn
            if block.norm_place == "post":
                x = self.keep(block.ln1(x + mixing(x)))
                x = self.keep(block.ln2(x + block.mlp(x)))
            else:
                x = self.keep(x + mixing(block.ln1(x)))
                x = self.keep(x + block.mlp(block.ln2(x)))
        head = self.model.token_embedding if config.model.tied_head == "on" else self.model.lm_head
        cap = config.model.logit_cap
        lens = [(self.model.ln_final(x) @ head.weight.T)[0] for x in self.stream[::2]]
        self.logits = [cap * torch.tanh(logits / cap) if cap else logits for logits in lens]

    def keep(self, x):
        x.retain_grad()
        self.stream.append(x)
        return x

    def softmax_of(self, attn, inputs, output):
        (x,), T = inputs, inputs[0].shape[1]
        q, k = (attn.prepared(attn.split_heads(map(x)), 0) for map in (attn.q_proj, attn.k_proj))
        k = k.repeat_interleave(attn.heads // k.shape[1], dim=1)
        scores = q @ k.transpose(2, 3) / math.sqrt(attn.head_size)
        far = torch.full((T, T), -math.inf, dtype=torch.float64).triu(1)
        scores = scores + (alibi_bias(attn.heads, T, T, scores) if attn.alibi else far)
        self.attention.append(scores.softmax(-1)[0].detach().numpy())


@pytest.mark.parametrize("name", MODELS)
def test_what_is_seen_is_what_pytorch_computes(name):
    config = BASE.replace(**MODELS[name])
    w, byte = weights_of(config), 101
    traced = Traced(config, w, TEXT)
    direction = direction_of(config.model, w, byte) if name != "bigram" else ()
    seen = run_now(look_forward(looked_into(config, w, len(TEXT), dtype=np.float64), TEXT, direction))

    assert seen["layers"] == len(seen["attention"]) == len(traced.attention) == (0 if name in WITHOUT_ATTENTION else 2)
    for maps, expected in zip(seen["attention"], traced.attention, strict=True):
        for triangle, square in zip(maps, expected, strict=True):
            for i, row in enumerate(triangle):
                np.testing.assert_allclose(row, square[i, : i + 1], rtol=SHOWN)
    for said, logits in zip(seen["lens"], traced.logits, strict=True):
        p = logits.softmax(-1).detach().numpy()
        for i, opinion in enumerate(said):
            assert [one for one, _ in opinion["top"]] == np.argsort(-p[i], kind="stable")[:6].tolist()
            np.testing.assert_allclose([q for _, q in opinion["top"]], np.sort(p[i])[::-1][:6], rtol=SHOWN)
            assert opinion["bits"] == pytest.approx(-(p[i] * np.log2(p[i])).sum(), rel=SHOWN)
            assert opinion["follows"] == (None if i == 10 else pytest.approx(p[i, TEXT[i + 1]], rel=SHOWN))
    np.testing.assert_allclose(seen["next"], p, rtol=SHOWN)
    stream = [x[0].detach().numpy() for x in traced.stream]
    np.testing.assert_allclose(seen["norms"], [np.linalg.norm(x, axis=1) for x in stream], rtol=SHOWN)
    np.testing.assert_allclose(seen["along"], [x @ np.array(direction) for x in stream], rtol=SHOWN, atol=1e-6)
    for cosine, along, norms in zip(seen["cosine"], seen["along"], seen["norms"], strict=True):
        np.testing.assert_allclose(cosine, np.divide(along, norms), rtol=3 * SHOWN, atol=1e-6)


@pytest.mark.parametrize("name", ["classic", "modern", "post"])
def test_towards_a_byte_its_logit_grows(name):
    """A step along the direction adds to the byte's logit what its length says, behind the last norm."""
    config = BASE.replace(**MODELS[name]).replace(logit_cap=0.0)
    w = weights_of(config)
    traced = Traced(config, w, TEXT)
    traced.logits[-1][:, 101].sum().backward()
    slope = traced.stream[-1].grad[0].numpy()
    direction = np.array(direction_of(config.model, w, 101))
    x = traced.stream[-1][0].detach().numpy()
    if config.model.norm_place == "pre":  # the norm itself takes out what points along x
        centred = x - x.mean(axis=1, keepdims=True) if config.model.norm == "layernorm" else x
        unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
        expected = direction - (unit @ direction)[:, None] * unit
    else:
        expected = np.tile(direction, (len(x), 1))
    cosines = (slope * expected).sum(1) / np.linalg.norm(slope, axis=1) / np.linalg.norm(expected, axis=1)
    assert (cosines > 1 - 1e-4).all()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_autograds(name):
    config = BASE.replace(**MODELS[name])
    w = weights_of(config)
    traced = Traced(config, w, TEXT[:-1])
    logits, targets = traced.logits[-1], torch.tensor(list(TEXT[1:]))
    torch.nn.functional.cross_entropy(logits, targets).backward()
    seen = run_now(look_backward(looked_into(config, w, len(TEXT) - 1, dtype=np.float64), TEXT))
    expected = [np.linalg.norm(x.grad[0].numpy(), axis=1) for x in traced.stream]
    np.testing.assert_allclose(seen["gradients"], expected, rtol=SHOWN)
    named = {row.name: traced.model.get_parameter(row.name).grad for row in parameters(config.model)}
    assert set(seen["weight_gradients"]) == set(named)
    largest = max(float(gradient.norm()) for gradient in named.values())
    for parameter, gradient in named.items():
        assert seen["weight_gradients"][parameter] == pytest.approx(
            float(gradient.norm()), rel=SHOWN, abs=1e-7 * largest
        )


WATCHING = {"native": native_engine, "webgpu": webgpu}
SIZES = {"native": {**MODERN, "ctx": 64, "batch": 2}}
SIZES["webgpu"] = {"layers": 1, "d_model": 10, "heads": 2, "ctx": 64, "batch": 2}  # with gradients in two slices


@pytest.mark.parametrize(
    "name", [pytest.param("native"), pytest.param("webgpu", marks=pytest.mark.xdist_group("wgpu"))]
)
def test_watched_tensors_are_the_specification_s(name):
    """Every tensor of a step, of gradients and of a look, on memory that others would have been given."""
    config = BASE.replace(**SIZES[name])
    made = [engine(config, State(0, weights_of(config))) for engine in (spec_engine, WATCHING[name])]
    windows = [CORPUS[:65], CORPUS[65:130]]
    modes = ("inspect", "gradients", "train_fed") if name == "native" else ("gradients",)
    for engine in made:
        run_now(engine.memory.watch(("*",)))
        run_now(engine.require(list(modes)))
    for mode in modes:
        for engine in made:
            run_now(engine.write_windows(windows))
            if mode == "train_fed":
                run_now(engine.write_rates(1))
            run_now(engine.player.run(mode, 1))
        for tensor in tensors_of(config, [mode]):
            (shape, expected), (same, got) = [run_now(engine.memory.read_tensor(tensor.name)) for engine in made]
            expected, got = np.frombuffer(expected, np.float32), np.frombuffer(got, np.float32)
            assert shape == same == tensor.shape and expected.size == tensor.size
            assert np.abs(expected - got).max() <= 2e-5 * np.abs(expected).max(), (mode, tensor)
    assert name == "native" or made[1].lowered.slices == 2


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2, targets="q_proj,fc_in")], ids=["whole", "adapters"])
def test_watching_changes_nothing_of_a_training(lora):
    """Of adapters neither, whose ops write to slices of what is watched."""
    config = BASE.replace(grad_accum=2, steps=10)
    config = RunConfig(config.model, config.train, lora)
    weight = "dblocks.0.attn.qkv.weight" if lora is None else "dblocks.0.attn.q_proj.lora_B"
    states = []
    for patterns in ((), ("blocks.*.dqkv", weight, "blocks.1.qkv", "blocks.1.y")):
        engine = native_engine(config, None, None if lora is None else weights_of(config), threads=1)
        watcher = Watcher(config, engine, patterns, 5) if patterns else None
        run_now(engine.load_corpus(CORPUS, b""))
        run_now(engine.train(7))
        states.append(bytes_of(state_of(engine)))
    assert states[0] == states[1]
    events = run_now(watcher.look(7))
    assert [event["tensor"] for event in events] == watcher.names
    assert set(watcher.names) == {"blocks.0.dqkv", "blocks.1.dqkv", "blocks.1.qkv", "blocks.1.y", weight}
    for event in events:
        values = np.frombuffer(run_now(engine.memory.read_tensor(event["tensor"]))[1], np.float32)
        assert event["shape"][-1] in (2, 24, 72) and sum(event["bins"]) == values.size and event["norm"] > 0
        assert event["norm"] == pytest.approx(float(np.linalg.norm(values)), rel=1e-5)
    with pytest.raises(TinyGPTError, match=r"no tensor 'blocks.0.dqkw'; did you mean 'blocks.0.dqkv'"):
        Watcher(config, engine, ["blocks.0.dqkw"], 5)
    with pytest.raises(TinyGPTError, match="not watched"):
        run_now(engine.memory.read_tensor("blocks.0.y"))
    with pytest.raises(TinyGPTError, match="this is a bug"):
        run_now(watched_run(engine, "inspect", b"abc", []))


def test_a_summary_is_numpy_s():
    values = np.append(np.random.default_rng(3).normal(1, 2, 70_001), np.zeros(30))
    told = summary([*values.tolist(), math.nan, math.inf])
    assert told["strange"] == 2 and told["zeros"] == pytest.approx(30 / 70_031)
    stated = [told[key] for key in ("norm", "mean", "std", "low", "high")]
    norm = np.linalg.norm(values)
    np.testing.assert_allclose(stated, [norm, values.mean(), values.std(), values.min(), values.max()], rtol=1e-12)
    counts, _ = np.histogram(values[::4], BINS, (values.min(), values.max()))
    assert np.abs(np.array(told["bins"]) - counts).sum() <= 2  # of equal sums, one may fall into the next stretch
    assert summary([])["bins"] == [0] * BINS and summary([2.0] * 9)["bins"][0] == 9


@pytest.mark.parametrize("name", ["classic", "post"])
def test_a_scaled_part_is_one_whose_output_is_scaled(name):
    """Every part of a model: its weights scaled, beside PyTorch's model whose parts' outputs are."""
    config = BASE.replace(**MODELS[name])
    w, tokens = weights_of(config), torch.tensor([list(TEXT)])
    plain = make_model(config.model, w).double()(tokens)
    for part in part_names(config.model):
        factor = -0.5 if part.endswith("2") else 0.0
        model = make_model(config.model, w).double()
        _, number, *kind = part.split(".")
        block = model.blocks[int(number)]
        if kind[:1] == ["head"]:
            mine = torch.arange(24) // 8 == int(kind[1])
            block.attn.o_proj.register_forward_pre_hook(
                lambda _, x, mine=mine, factor=factor: x[0] * (1 - (1 - factor) * mine.double())
            )
        for branch in (block.attn, block.mlp) if not kind else [getattr(block, kind[0])] if kind[0] != "head" else []:
            branch.register_forward_hook(lambda _, __, y, factor=factor: factor * y)
        expected = model(tokens)
        got = make_model(config.model, scaled_weights(config.model, w, [(part, factor)])).double()(tokens)
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
        assert (expected - plain).abs().max() > 1e-3
