"""Adapters (LoRA) as a program: frozen weights with trained matrices beside them, against PyTorch's autograd.

q, k and v are columns of one matrix of activations, and so are the halves of a gated MLP: forward adds to some of them,
backward reads the gradient of them.
"""

import numpy as np
import pytest
import torch
from engine_lab import TEXT, Lab, loaded, named, trained, uneven
from gpu_here import MISSING, gpu_here
from watched import WatchedMachine

from tinygpt.core.config import VOCAB, LoraConfig, RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.models.adapters import adapter_parameters
from tinygpt.core.models.memory import Memory
from tinygpt.core.passes import program_of
from tinygpt.core.plan.verify import verify
from tinygpt.core.presets import preset
from tinygpt.engines.base import State, terminal_engine, vector
from tinygpt.engines.spec import SpecMachine, spec_engine
from tinygpt.kernels.init import initial_values, initial_weights
from tinygpt.reference.lora import base_weights, install, lora_parameters
from tinygpt.reference.model import flatten, make_model

RELATIVE = 1e-9
U = 2.0**-24
FLOAT32 = 64 * U  # the root of some 4,000 roundings, one after the other, whose errors have either sign
ROUNDINGS = 4  # gradients may be as far off as if each weight had been rounded this many times more
EVEN = {"layers": 2, "d_model": 24, "heads": 3, "ctx": 11, "batch": 3}
ODD = {"layers": 1, "d_model": 15, "heads": 5, "ctx": 7, "batch": 2}
GATED = {"norm": "rmsnorm", "activation": "swiglu", "biases": "off", "tied_head": "off", "positions": "rotary"}
# With scales that float32 holds, as a program's numbers are.
ADAPTERS = {
    "everywhere": (EVEN, LoraConfig(rank=4, alpha=6.0, targets="q_proj,k_proj,v_proj,o_proj,fc_in,fc_out")),
    "odd": (ODD, LoraConfig(rank=3, alpha=1.5, targets="k_proj,fc_in,fc_out")),
    "v-odd-rank": (EVEN, LoraConfig(rank=3, alpha=6.0, targets="v_proj")),
    "gated": (
        ODD | GATED | {"d_model": 30, "kv_heads": 1},
        LoraConfig(rank=2, alpha=1.0, targets="v_proj,fc_gate,fc_in,fc_out"),
    ),
    "post": (EVEN | {"norm_place": "post", "activation": "relu2"}, LoraConfig(rank=8, targets="q_proj,fc_in,fc_out")),
}


def machine_of(engine):
    if engine == "spec":
        return SpecMachine(np.float64)
    if engine == "native":
        return WatchedMachine(threads=2)
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return WebGPUMachine(gpu=gpu_here())


def grads_of(engine):
    """In float64 from the specification."""
    if not hasattr(engine.player, "view"):
        return run_now(vector(engine.memory, "grads"))
    moves = sorted(engine.lowered.memory.layout.moves, key=lambda move: move.offset)
    return np.concatenate([engine.player.view("grads")[move.start : move.start + move.size] for move in moves])


def change_by_rounding(model, gradients, expected):
    """How far the gradients move, relative to their largest, when every weight is off by one rounding: what float32
    can tell of them, however the model's numbers were drawn. The largest of some draws."""
    random, worst = np.random.default_rng(5), 0.0
    weights = [weight.detach().clone() for weight in model.parameters()]
    for _ in range(8):
        with torch.no_grad():
            for weight, exact in zip(model.parameters(), weights, strict=True):
                weight.copy_(exact * (1 + U * torch.from_numpy(random.choice([-1.0, 1.0], tuple(exact.shape)))))
        worst = max(worst, np.abs(gradients() - expected).max())
    return worst / np.abs(expected).max()


# WGSL on all kinds of adapters is a long proof: software takes seconds to compile each.
ON_ENGINES = [(name, engine) for name in ADAPTERS for engine in ("spec", "native", "webgpu")]
WEBGPU = [pytest.mark.xdist_group("wgpu")]


@pytest.mark.parametrize(
    "name, engine",
    [
        pytest.param(*pair, marks=WEBGPU + [pytest.mark.slow] * (pair[0] != "gated") if pair[1] == "webgpu" else [])
        for pair in ON_ENGINES
    ],
)
def test_logits_and_every_gradient_are_pytorchs_and_the_base_stays(name, engine):
    changes, lora = ADAPTERS[name]
    plain = preset("tiny", "classic").replace(**changes)
    config = RunConfig(plain.model, plain.train, lora)
    random = np.random.default_rng(1)
    start, rows = initial_weights(config.model, 1), adapter_parameters(config.model, lora)
    base = (start + random.normal(0, 0.1, start.size)).astype(np.float32)
    adapter = random.normal(0, 0.3, rows[-1].offset + rows[-1].size).astype(np.float32)
    windows = random.integers(0, VOCAB, (config.train.batch, config.model.ctx + 1), dtype=np.int32)

    model = make_model(config.model, base).double()
    install(model, lora, adapter)
    tokens, targets = (torch.from_numpy(part).long() for part in (windows[:, :-1], windows[:, 1:]))
    logits = model(tokens)

    def gradients():
        model.zero_grad()
        model(tokens, targets)[1].backward()
        return flatten([tensor.grad for tensor in lora_parameters(model)])

    expected = gradients()
    rounding = change_by_rounding(model, gradients, expected)
    adapted = terminal_engine(config, machine_of(engine), State(0, adapter), base)

    def check(what, got, expected, bound=FLOAT32):
        worst = np.abs(np.array(got) - expected).max() / np.abs(expected).max()
        assert worst <= bound, what

    last = logits[0].detach().numpy()
    head, final = bytes(windows[0, :-2].tolist()), int(windows[0, -2])
    check("logits of a prompt", run_now(adapted.prefill(head)), last[-2])
    check("logits of one byte more", run_now(adapted.decode(final)), last[-1])
    run_now(adapted.train_fed([bytes(row.tolist()) for row in windows]))
    check("gradients", grads_of(adapted), expected, RELATIVE if engine == "spec" else ROUNDINGS * rounding)
    assert run_now(vector(adapted.memory, "base")).tobytes() == base.tobytes()
    run_now(adapted.close())


def test_nothing_of_the_base_is_written_and_nothing_unread_is_computed():
    changes, lora = ADAPTERS["everywhere"]
    plain = preset("tiny", "classic").replace(**changes)
    config = RunConfig(plain.model, plain.train, lora)
    memory = Memory(config)
    step = program_of("train_fed", config, memory)
    outputs = [tensor for op in step.ops for tensor in op.writes()]
    assert not [tensor for tensor in outputs if tensor.root() is memory.base]
    read = {tensor.root().name for op in step.ops for tensor in op.reads()}
    kept = ("grad", "weight", "slot", "state", "output")
    assert not [op for op in step.ops if not any(t.kind in kept or t.root().name in read for t in op.writes())]
    # The first block's input has no gradient: what would bring it to the embeddings is not computed.
    kernels = [op.kernel for op in step.ops]
    assert "embed_backward" not in kernels
    assert kernels.count("layernorm_backward") == 2 * config.model.layers  # the last norm's instead of the first's
    step.call("constant", y=memory.base, P=1, start=0, value=0.0)
    with pytest.raises(Exception, match="base is the host's to write"):
        verify(step)


@pytest.fixture(params=named(["native", "torch", "webgpu", "wasm-node"]))
def lab(request):
    made = Lab(request.param, request)
    yield made
    made.close()


STEPS = 6


def test_every_engine_trains_the_same_adapters_on_weights_that_stay(lab):
    """From the same start values; without an adapter's share, the logits are the plain model's to the bit."""
    lora = LoraConfig(rank=4, targets="q_proj,v_proj,o_proj,fc_in,fc_out")
    base = uneven(lab.config()).w
    adapted, plain = lab.adapted(lora, base), lab.new(State(0, base))
    prompt = TEXT[: lab.config().model.ctx]
    assert run_now(adapted.prefill(prompt)) == run_now(plain.prefill(prompt))
    exact = loaded(spec_engine(adapted.config, None, base, dtype=np.float64))
    expected, reached = trained(exact, STEPS), run_now(exact.export_state())
    metrics, state = trained(adapted, STEPS), run_now(adapted.export_state())
    np.testing.assert_allclose([row.loss for row in metrics], [row.loss for row in expected], rtol=2e-6)
    np.testing.assert_allclose([row.grad_norm for row in metrics], [row.grad_norm for row in expected], rtol=2e-5)
    np.testing.assert_allclose(state.w, reached.w, rtol=0, atol=1e-4)
    assert list(state.slots) == ["m", "v"] and state.slots["m"].size == state.w.size < base.size

    run_now(adapted.import_state(reached))  # another one's adapters
    wanted, got = np.array(run_now(exact.prefill(prompt))), np.array(run_now(adapted.prefill(prompt)))
    assert np.abs(got - wanted).max() <= FLOAT32 * np.abs(wanted).max()
    run_now(adapted.import_state(State(0, initial_values(adapted.config))))  # and none
    assert run_now(adapted.prefill(prompt)) == run_now(plain.prefill(prompt))
    held = base_weights(adapted.model) if lab.name == "torch" else run_now(vector(adapted.memory, "base"))
    assert held.tobytes() == base.tobytes()
