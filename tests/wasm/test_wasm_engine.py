"""The WebAssembly engines' own: their builds. All else is in test_conformance.py."""

import pytest

from tinygpt.bench.parity import parity
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.native import native_engine
from tinygpt.engines.wasm import WasmMachine

SMALL_ODD = preset("tiny").replace(layers=2, d_model=30, heads=3, ctx=37, batch=3)


@pytest.fixture(params=["node", "chromium"])
def runner(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def wasm(node):
    """Engines in Node, ended with the test."""
    made = []

    def make(config, runner=node, **options):
        made.append(terminal_engine(config, WasmMachine(runner.kind, runner=runner, **options)))
        return made[-1]

    yield make
    for engine in made:
        run_now(engine.close())


def state_bytes(engine):
    state = run_now(engine.export_state())
    return b"".join(part.tobytes() for part in (state.w, *state.slots.values()))


@pytest.mark.parametrize("build", ["scalar", "simd", "relaxed"])
@pytest.mark.parametrize("changes", [{}, {"grad_accum": 2}])
def test_every_build_starts_from_natives_bytes_and_trains_as_natively(wasm, build, changes):
    config = SMALL_ODD.replace(**changes)
    engine = wasm(config, build=build)
    assert state_bytes(engine) == state_bytes(native_engine(config))
    assert parity(config, engine, native_engine(config), steps=10).drift < 1e-6


@pytest.mark.slow
def test_fifty_steps_drift_less_than_a_thousandth_from_native(wasm, runner):
    config = preset("small" if runner.kind == "node" else "tiny")
    result = parity(config, wasm(config, runner), native_engine(config), steps=50)
    assert result.drift < 1e-3
    assert result.losses[-1][0] < result.losses[0][0] - 0.5  # it did train


def test_a_build_that_there_is_not_is_refused(wasm):
    with pytest.raises(TinyGPTError, match="must be one of auto, scalar, simd, relaxed, not 'simdd'"):
        wasm(SMALL_ODD, build="simdd")
