"""The tab's WebGPU engine: what it is called and refuses. All else: test_conformance.py."""

import pytest

from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.engines.base import terminal_engine
from tinygpt.engines.select import ENGINES, EngineChoice, make_engine
from tinygpt.engines.webgpu_chromium import WebGpuChromiumMachine

ODD = preset("tiny").replace(layers=1, d_model=35, heads=5, ctx=9, batch=2)


def test_it_names_its_adapter(gpu_chromium):
    engine = terminal_engine(ODD, WebGpuChromiumMachine(runner=gpu_chromium))
    run_now(engine.export_state())
    described = engine.describe()
    assert described.startswith("WebGPU, software adapter: ") and ", not a GPU, " in described
    assert "swiftshader" in described.lower() and described.endswith(", float32, in Chromium")
    run_now(engine.close())


def test_it_is_one_of_the_engines_and_refuses_what_it_does_not_do():
    assert "webgpu-chromium" in ENGINES
    with pytest.raises(TinyGPTError, match="in float32 or f16, not in bf16"):
        make_engine(ODD, EngineChoice("webgpu-chromium", precision="bf16"))
    with pytest.raises(TinyGPTError, match="runs on the GPU that Chromium gives it, not on 'cuda'"):
        make_engine(ODD, EngineChoice("webgpu-chromium", device="cuda"))


def test_float16_is_refused_where_there_is_none(gpu_chromium):
    with pytest.raises(TinyGPTError, match="has no float16; leave out --precision f16"):
        WebGpuChromiumMachine(f16=True, runner=gpu_chromium)
