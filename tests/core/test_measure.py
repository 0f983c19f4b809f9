"""The protocol by which a tab measures its machine: what is read, for how long, and what the block to copy says."""

import json

import pytest

from tinygpt.core.tab.measure import browser_of, enough, plan, report

GPU = {"adapter": "NVIDIA H200", "software": False}
SOFTWARE = {"adapter": "SwiftShader", "software": True}
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"


def reading(name, ms):
    return {"name": name, "steps": 30, "ms": ms, "engine": f"{name} in words"}


def fields(gpu, readings):
    asked = {"preset": "", "agent": CHROME, "cores": 8, "memory": 2**33, "gpu": gpu, "note": "", "readings": readings}
    told = json.loads(report(json.dumps(asked)))
    return dict(told["fields"]), told["figures"]


def test_both_engines_are_read_twice_and_compared():
    assert json.loads(plan(json.dumps({"gpu": GPU}))) == [["webgpu", 1], ["wasm", 1], ["webgpu", 2], ["wasm", 2]]
    readings = [reading("webgpu", 2.0), reading("wasm", 100.0), reading("webgpu", 2.1), reading("wasm", 146.0)]
    block, figures = fields(GPU, readings)
    assert list(block) == [
        *("device", "os/browser", "adapter", "preset", "steps read", "webgpu", "wasm-simd", "ratio", "notes"),
    ]
    assert figures == {"webgpu": pytest.approx(2.05), "wasm": 123.0}
    assert block["webgpu"] == "2.05 ms per step (2, 2.1), 749,268 tokens per second"
    assert block["ratio"] == "60.0" and block["preset"] == "large, classic" and block["steps read"] == "30, 30, 30, 30"
    assert block["device"] == "8 logical cores, 8 GB of memory or more" and block["os/browser"] == "Linux, Chrome 156"
    assert "The rounds differ by 46 %" in block["notes"] and block["notes"].count("differ") == 1


@pytest.mark.parametrize(("gpu", "said"), [(SOFTWARE, "it is not a GPU"), (None, "No WebGPU here")])
def test_without_a_gpu_there_is_no_figure_for_one(gpu, said):
    assert json.loads(plan(json.dumps({"gpu": gpu}))) == [["wasm", 1], ["wasm", 2]]
    block, figures = fields(gpu, [reading("wasm", 100.0), reading("wasm", 100.0)])
    assert block["webgpu"] == block["ratio"] == "none" and figures["webgpu"] is None and said in block["notes"]


def test_a_reading_is_long_enough_on_fast_and_on_slow_machines():
    assert not enough(1000, 0.9) and not enough(29, 5.0) and enough(30, 1.0)
    assert not enough(4, 20.0) and enough(5, 15.0)


def test_a_user_agent_in_words():
    assert browser_of(CHROME + " Edg/156.1") == "Linux, Edge 156"
    assert browser_of("(Macintosh; Intel Mac OS X 10_15_7) Version/26.1 Safari/605") == "macOS, Safari 26"
    assert browser_of("(Android 16; Mobile) Gecko/151 Firefox/151.0") == "Android, Firefox 151"
    assert browser_of("") == "unknown, unknown"
