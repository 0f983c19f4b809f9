"""The tab's WebGPU engine on SwiftShader against native: start values, losses, state, evaluation, logits.

The sizes are odd and small: SwiftShader takes seconds to compile each kernel that is blocked for even ones, and a tenth
of a second for a step of the smallest model.
"""

import json

import numpy as np
import pytest

from tinygpt.bench.workload import Run
from tinygpt.core.config import SampleConfig, preset, preset_names
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.gpu.recipe import device_of, gpu_recipe
from tinygpt.core.rng import eval_offsets
from tinygpt.core.sampler import generate
from tinygpt.core.trainer import run_now
from tinygpt.engines.native import NativeEngine
from tinygpt.engines.select import ENGINES, EngineChoice, make_engine
from tinygpt.engines.webgpu_chromium import WebGpuChromiumEngine

ODD = preset("tiny").replace(layers=1, d_model=35, heads=5, ctx=9, batch=2)
TEXT = bytes(range(256)) * 4


@pytest.fixture(scope="module")
def start():
    return run_now(NativeEngine(ODD).export_state())


@pytest.fixture(scope="module")
def shared_engine(gpu_chromium):
    return WebGpuChromiumEngine(ODD, runner=gpu_chromium)


@pytest.fixture
def engine(shared_engine, start):
    """At the beginning, whatever was done with it before."""
    run_now(shared_engine.import_state(start))
    return shared_engine


def test_it_starts_from_natives_bytes_and_names_its_adapter(shared_engine, start):
    """The first test: nothing was imported yet."""
    state = run_now(shared_engine.export_state())
    assert b"".join(part.tobytes() for part in state[1:]) == b"".join(part.tobytes() for part in start[1:])
    described = shared_engine.describe()
    assert described.startswith("WebGPU, software adapter: ") and ", not a GPU, " in described
    assert "swiftshader" in described.lower() and described.endswith(", float32, in Chromium")


def test_twenty_steps_are_natives(engine):
    there, native = Run(ODD, engine), Run(ODD, NativeEngine(ODD))
    losses = np.array([metrics[1:] for metrics in there.advance(20)])
    expected = np.array([metrics[1:] for metrics in native.advance(20)])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)  # loss and norm
    w = run_now(engine.export_state()).w
    np.testing.assert_allclose(w, run_now(native.engine.export_state()).w, atol=1e-5)
    assert losses[-1, 0] < losses[0, 0]


def test_the_overfit_gate(engine):
    """Random bytes whose windows begin differently: a model that can learn, learns them by heart."""
    rows, ctx = ODD.train.batch, ODD.model.ctx
    text = np.random.default_rng(0).integers(0, 256, (rows, ctx + 1), dtype=np.uint8)
    text[:, 0] = np.arange(rows)
    run_now(engine.load_corpus(text.tobytes() + b"\0", b""))
    for step in range(1, 61):
        run_now(engine.train_step(step, 0.01, [row * (ctx + 1) for row in range(rows)]))
    losses = [metrics.loss for metrics in run_now(engine.read_metrics())]
    assert 5.4 < losses[0] < 5.7
    assert losses[-1] < 0.01


def test_it_evaluates_as_natively(engine):
    native = NativeEngine(ODD)
    offsets = eval_offsets(1, 5, len(TEXT), ODD.model.ctx)  # the last batch is not full
    windows = np.frombuffer(TEXT[:40], np.uint8).reshape(5, 8)
    losses, of_windows = [], []
    for one in (engine, native):
        run_now(one.load_corpus(TEXT, TEXT))
        losses.append(run_now(one.eval_loss(offsets)))
        of_windows.append(run_now(one.window_losses(windows)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    np.testing.assert_allclose(of_windows[0], of_windows[1], rtol=1e-5)


def test_its_logits_are_natives_and_so_is_its_text(engine):
    native = NativeEngine(ODD)
    for one in (engine, native):
        run_now(one.load_corpus(TEXT, TEXT))
    logits = [
        [run_now(one.prefill(b"To")), run_now(one.decode(32)), run_now(one.decode(98))] for one in (engine, native)
    ]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)
    made = [run_now(generate(one, ODD.model.ctx, b"To be", SampleConfig(tokens=8))) for one in (engine, native)]
    assert made[0] == made[1]


def test_every_op_has_its_time(engine):
    profile = engine.profile("decode")
    assert [op.kernel for op, _ in profile][:3] == ["embed_one", "layernorm", "linear"]
    assert all(seconds > 0 for _, seconds in profile)


def test_a_run_resumed_in_a_new_engine_goes_on_to_the_bit(engine, gpu_chromium):
    """Last of the shared engine's: the runner holds one."""
    run = Run(ODD, engine)
    run.advance(3)
    state = run_now(engine.export_state())
    assert state.step == 3
    went_on = run.advance(3)
    after = run_now(engine.export_state())
    again = Run(ODD, WebGpuChromiumEngine(ODD, state, runner=gpu_chromium))
    again.step = 3
    assert again.advance(3) == went_on
    back = run_now(again.engine.export_state())
    assert back.step == 6
    assert all(a.tobytes() == b.tobytes() for a, b in zip(back[1:], after[1:], strict=True))


def test_the_page_plans_for_a_gpu_what_cpython_plans(gpu_chromium):
    """MicroPython's recipes of every preset for this device, and of one for others."""
    devices = [{}, {"subgroups": True, "processors": 128, "max_buffer": 2**31, "max_binding": 2**31}]
    code = """
        const { startPython } = await import("/engine/python.ts");
        const files = await (await fetch("/python.json")).json();
        globalThis.python ??= await startPython(files, "/micropython/micropython.wasm");
        return ASKED.map(([preset, device]) =>
          JSON.parse(python.session({ preset, device, changes: {}, bytes: 100000000 }).plan()).recipe);
    """
    here = gpu_chromium.ask("gpu")[0]["device"]
    asked = [[name, here] for name in preset_names()] + [["small", device] for device in devices]
    made = gpu_chromium.ask("evaluate", code=f"const ASKED = {json.dumps(asked)};\n{code}")[0]["value"]
    for (name, device), got in zip(asked, made, strict=True):
        expected = gpu_recipe(preset(name), device_of(device))
        assert json.dumps(got, sort_keys=True) == json.dumps(expected, sort_keys=True), (name, device)


def test_it_is_one_of_the_engines_and_refuses_what_it_does_not_do():
    assert "webgpu-chromium" in ENGINES
    with pytest.raises(TinyGPTError, match="in float32 or f16, not in bf16"):
        make_engine(ODD, EngineChoice("webgpu-chromium", precision="bf16"))
    with pytest.raises(TinyGPTError, match="runs on the GPU that Chromium gives it, not on 'cuda'"):
        make_engine(ODD, EngineChoice("webgpu-chromium", device="cuda"))


def test_float16_is_refused_where_there_is_none(gpu_chromium):
    with pytest.raises(TinyGPTError, match="has no float16; leave out --precision f16"):
        WebGpuChromiumEngine(ODD, f16=True, runner=gpu_chromium)
