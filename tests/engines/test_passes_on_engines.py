"""Passes that make a program fast can be left out, on every engine, and nothing else changes."""

import numpy as np
import pytest
from engine_lab import EVEN, Lab, assert_like_the_reference, bytes_of, loaded, named, reference, state_of, trained

from tinygpt.core.config import LoraConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.passes import optional_passes
from tinygpt.core.presets import preset
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.kernels.init import initial_weights

PARTS = {"gelu": {}, "relu2": {"activation": "relu2", "norm": "rmsnorm", "norm_place": "post", "dropout": 0.2}}


@pytest.fixture(scope="module", params=named(["spec", "native", "wasm-node", "webgpu"]))
def lab(request):
    made = Lab(request.param, request)
    yield made
    made.close()


def without(engine, passes):
    engine.memory.without = optional_passes(passes)
    return engine


def test_the_plain_program_trains_as_the_specification_does(lab):
    """The specification's own is fused."""
    engine = loaded(without(lab.new(**EVEN), "fuse"))
    metrics, state = trained(engine, 20), state_of(engine)
    expected, reached, _ = reference(20, **EVEN)
    assert_like_the_reference(metrics, state, expected, reached)
    kernels = {op.kernel for op in engine.lowered.programs["train"].ops}
    assert {"add", "activation", "activation_backward"} <= kernels and "linear_activation" not in kernels
    read = {tensor.name for op in engine.lowered.programs["train"].ops for tensor in op.reads()}
    assert any("q_proj.weight" in name for name in read) and not any("qkv.weight" in name for name in read)


@pytest.mark.parametrize("name", PARTS)
def test_an_activation_of_its_own_changes_no_bit_on_a_cpu(lab, name):
    """Its numbers are the same, whether they went through memory or not."""
    if lab.name == "webgpu":
        pytest.skip("a GPU may fuse a product and a sum, or not")
    states = []
    for passes in ("", "activations"):
        engine = loaded(without(lab.new(**PARTS[name]), passes))
        trained(engine, 5)
        states.append(bytes_of(state_of(engine)))
    assert states[0] == states[1]


def test_adapters_learn_the_same_without_it(lab):
    base = initial_weights(lab.config().model, 3) * 4
    losses = []
    for passes in ("", "fuse"):
        engine = lab.adapted(LoraConfig(rank=4, targets="q_proj,o_proj,fc_in,fc_out"), base, dropout=0.1)
        losses.append([row.loss for row in trained(without(engine, passes), 4)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-6)


def test_what_is_not_there_cannot_be_left_out():
    with pytest.raises(TinyGPTError, match="'fus' is not a pass that can be left out; did you mean 'fuse'"):
        optional_passes("fus")
    with pytest.raises(TinyGPTError, match="the torch engine has no programs and no passes"):
        make_engine(preset("tiny"), EngineChoice("torch", device="cpu", without="fuse"))
