"""Weights that came in int8 or float16: engines that read them as they are write and measure as with the floats that
they stand for."""

from typing import NamedTuple

import numpy as np
import pytest
from engine_lab import TEXT, Lab, bytes_of, loaded, named, rounding, state_of, trained, uneven

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.write.desk import Desk
from tinygpt.core.write.sampler import generate
from tinygpt.engines.base import State
from tinygpt.engines.spec import spec_engine
from tinygpt.store.formats.tinygpt_file import compacted

# Matrices whose bytes are no whole words, so that those of q, k and v lie off them.
PLAIN = {"d_model": 33, "heads": 3}
OTHERS = {**PLAIN, "norm": "rmsnorm", "activation": "swiglu", "biases": "off", "tied_head": "off", "kv_heads": 1}
OTHERS |= {"positions": "alibi", "qk_norm": "on", "logit_cap": 20.0}
BIGRAM = {"kind": "bigram"}
RECURRENT = {"kind": "recurrent", "d_model": 33, "heads": 3}
WINDOWS = [TEXT[:12], TEXT[5:17]]
GREEDY = SampleConfig(tokens=256, temperature=0.0)


@pytest.fixture(scope="module", params=named(["spec", "native", "wasm-node"]))
def lab(request):
    made = Lab(request.param, request)
    yield made
    made.close()


def written(engine, prompt=b"To be", settings=GREEDY):
    return run_now(generate(engine, engine.config.model.ctx, prompt, settings))


def logits_of(engine):
    """Of whole prompts, and a byte at a time behind the last of them."""
    ctx = engine.config.model.ctx
    read = [run_now(engine.prefill(TEXT[:length])) for length in (ctx, 20, 9, 3)]
    return np.array(read + [run_now(engine.decode(byte)) for byte in TEXT[3:ctx]])


class Expected(NamedTuple):
    logits: np.ndarray
    text: bytes
    losses: list[list[float]]


KNOWN: dict[str, Expected] = {}


def unpacked(config, dtype):
    """What the specification makes of the floats that the weights stand for; the same for every engine."""
    key = f"{dtype} {config.as_dict()}"
    if key not in KNOWN:
        state = compacted(uneven(config), config.model, dtype)
        engine = spec_engine(config, State(0, state.w), dtype=np.float64)
        KNOWN[key] = Expected(logits_of(engine), written(engine), run_now(engine.window_losses(WINDOWS)))
    return KNOWN[key]


@pytest.mark.parametrize(
    "dtype, changes",
    [("int8", PLAIN), ("int8", OTHERS), ("int8", BIGRAM), ("int8", RECURRENT), ("float16", PLAIN), ("float16", OTHERS)],
    ids=["plain", "options", "bigram", "recurrent", "float16", "float16 options"],
)
def test_they_are_read_as_they_are(lab, dtype, changes):
    config = lab.config(**changes)
    state = compacted(uneven(config), config.model, dtype)
    engine, expected = lab.new(state, **changes), unpacked(config, dtype)
    off = rounding(config, np.abs(expected.logits).max())
    np.testing.assert_allclose(logits_of(engine), expected.logits, rtol=0, atol=off)
    assert written(engine) == expected.text
    np.testing.assert_allclose(run_now(engine.window_losses(WINDOWS)), expected.losses, rtol=0, atol=off)
    reads = dtype in engine.machine.compact
    assert reads or (lab.name, dtype) == ("wasm-node", "float16")
    assert engine.describe().endswith(f", weights in {dtype}") == reads
    assert ("weights" not in [tensor.name for tensor in engine.lowered.tensors]) == reads


@pytest.mark.parametrize("dtype", ["int8", pytest.param("float16", marks=pytest.mark.slow)])
def test_they_become_floats_when_those_are_asked_for(lab, dtype):
    """In the middle of a text; and what was trained since goes on from there."""
    config = lab.config(**PLAIN)
    state = compacted(uneven(config), config.model, dtype)
    engine = lab.new(state, **PLAIN)
    settings = SampleConfig(tokens=30, temperature=1.0)
    begun = run_now(engine.begin_text(b"To be", settings, 0, b"")) + run_now(engine.continue_text(9))
    assert state_of(engine).w.tobytes() == state.w.tobytes()
    assert begun + run_now(engine.continue_text(20)) == written(engine, settings=settings)
    assert "weights in" not in engine.describe()

    straight = loaded(lab.new(State(0, state.w), **PLAIN))
    run_now(engine.import_state(state))
    late = lab.new(state, **PLAIN)
    run_now(late.prefill(b"a"))
    for other in (engine, late):
        assert trained(loaded(other), 2) == trained(straight, 2)
        assert bytes_of(state_of(other)) == bytes_of(state_of(straight))
        run_now(straight.import_state(State(0, state.w)))

    again = lab.new(state, **PLAIN)
    run_now(again.prefill(b"a"))
    other = compacted(State(0, uneven(config).w[::-1].copy()), config.model, dtype)
    for given in (other, State(0, other.w)):
        run_now(again.import_state(given))
        assert written(again) == written(lab.new(given, **PLAIN))


@pytest.mark.parametrize("lab", named(["native"]), indirect=True)
def test_texts_written_at_once_are_those_written_alone_by_any_number_of_threads(lab):
    config = lab.config(**PLAIN)
    state, texts = compacted(uneven(config), config.model, "int8"), []
    for threads in (1, 2):
        engine = lab.new(state, threads=threads, **PLAIN)
        desk = Desk(engine, 5)
        tickets = desk.join_all(5, b"To be", SampleConfig(tokens=20, temperature=1.0), ())
        while not desk.empty():
            run_now(desk.more())
        run_now(engine.make_room(1))
        texts.append([ticket.out for ticket in tickets])
        texts.append([written(engine, settings=ticket.settings) for ticket in tickets])
    assert len({tuple(one) for one in texts}) == 1
