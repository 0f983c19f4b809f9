"""The tab's WebGPU player on a recipe written by hand: what it moves, what it runs, what it says when it cannot."""

import json

import numpy as np
import pytest
from mini import CTX, FILES, MINI, mini_recipe, vectors

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.rng import INIT
from tinygpt.kernels.init import normal

RATES = [0.25, 3.0, 0.0]
CORPUS = bytes(range(200))


@pytest.fixture
def runner(gpu_chromium):
    gpu_chromium.kernels = dict(FILES)
    yield gpu_chromium
    gpu_chromium.kernels = {}


def opened(runner, **changes):
    found, _ = runner.ask("gpu")
    runner.ask("open-gpu", recipe=mini_recipe() | changes)
    runner.ask("corpus", CORPUS + CORPUS, train=len(CORPUS))
    return found


def steps(runner, numbers):
    asked = [[number, RATES, [number, number + 1]] for number in numbers]
    return np.frombuffer(runner.ask("steps", steps=asked)[1], "<f8").reshape(-1, 3)


def weights(runner):
    return vectors(runner.ask("take", name="weights", start=0, size=160)[1])


def test_the_adapter_is_named_and_called_what_it_is(runner):
    found = opened(runner)
    assert "swiftshader" in found["adapter"].lower()
    assert found["software"] is True
    described = runner.ask("open-gpu", recipe=mini_recipe())[0]["description"]
    assert described.startswith(f"WebGPU, software adapter: {found['adapter']}, not a GPU, ")
    assert runner.capabilities["webgpu"] == {"adapter": found["adapter"], "software": True}


def test_the_device_is_had_with_all_that_the_adapter_can(runner):
    device = opened(runner)["device"]
    assert device["max_buffer"] > 2**28 and device["max_binding"] > 2**27  # more than the least that WebGPU promises
    assert device["max_shared"] >= 16384 and device["max_invocations"] >= 256 and device["max_groups"] == 65535
    assert device["subgroups"] is True and device["f16"] is False


@pytest.mark.parametrize(
    "info, label",
    [
        ({"vendor": "nvidia", "architecture": "hopper", "device": "", "description": "NVIDIA H200"}, "NVIDIA H200"),
        ({"vendor": "apple", "architecture": "metal-3", "device": "", "description": ""}, "apple metal-3"),
        ({"vendor": "", "architecture": "", "device": "", "description": ""}, "unnamed adapter"),
        (None, "unnamed adapter"),
        (
            {"vendor": "mesa", "architecture": "", "device": "", "description": "llvmpipe (LLVM 19)"},
            "software adapter: llvmpipe (LLVM 19), not a GPU",
        ),
        (
            {"vendor": "microsoft", "architecture": "warp", "device": "", "description": ""},
            "software adapter: microsoft warp, not a GPU",
        ),
        (
            {"vendor": "x", "architecture": "", "device": "", "description": "", "isFallbackAdapter": True},
            "software adapter: x, not a GPU",
        ),
    ],
)
def test_adapters_by_name(runner, info, label):
    code = f"""
        const {{ nameOf }} = await import("/engine/gpu.ts");
        const {{ adapterLabel }} = await import("/engine/protocol.ts");
        return adapterLabel(nameOf({{ info: {json.dumps(info)} }}));
    """
    assert runner.ask("evaluate", code=code)[0]["value"] == label


def test_start_values_are_those_of_all_engines_and_the_file_has_its_own_order(runner):
    opened(runner)
    expected = np.concatenate([normal(7, INIT, 3, 120, 0.02), np.ones(40, np.float32)])
    assert weights(runner).tobytes() == expected.astype("<f4").tobytes()
    assert vectors(runner.ask("take", name="v", start=0, size=160)[1]).tolist() == [0] * 160
    part = vectors(runner.ask("take", name="weights", start=50, size=90)[1])  # over both tensors and both buffers
    assert part.tobytes() == expected[50:140].astype("<f4").tobytes()


@pytest.mark.parametrize("name", ["weights", "m", "v"])
def test_what_is_put_is_taken(runner, name):
    opened(runner)
    values = np.arange(160, dtype="<f4")
    runner.ask("put", values[:30].tobytes(), name=name, start=0)
    runner.ask("put", values[30:].tobytes(), name=name, start=30)
    assert vectors(runner.ask("take", name=name, start=0, size=160)[1]).tolist() == values.tolist()


def test_a_step_reads_its_inputs_and_its_losses_come_in_bulk(runner):
    """More steps than the ring of losses has room for."""
    opened(runner)
    before = weights(runner)
    rows = steps(runner, range(1, 101))
    assert rows[:, 0].tolist() == list(range(1, 101))
    assert rows[:, 1].tolist() == [CORPUS[number + 1] for number in range(1, 101)]  # the token at `first` = 1
    assert rows[:, 2].tolist() == [3.0] * 100
    np.testing.assert_allclose(weights(runner), before + 100 * 0.5 * 0.25, rtol=1e-5)


def test_batches_of_one_step_run_one_after_the_other(runner):
    """Each in turn overwrites the loss with its own token; all have the step's rates."""
    programs = mini_recipe()["programs"]
    train = programs.pop("train")
    programs |= {"gradient": train, "accumulate": train, "update": train[:1]}
    opened(runner, programs=programs, grad_accum=2)
    before = weights(runner)
    asked = [[1, RATES, [10, 20, 30, 40]], [2, RATES, [50, 60, 70, 80]]]
    rows = np.frombuffer(runner.ask("steps", steps=asked)[1], "<f8").reshape(-1, 3)
    assert rows.tolist() == [[1, 31, 3], [2, 71, 3]]  # the last batch's first row
    change = (weights(runner) - before) / (0.5 * 0.25)
    flat = np.concatenate([change[120:], change[:120]])  # in the flat vector's order
    np.testing.assert_allclose(flat, [6] * 100 + [4] * 60, rtol=1e-5)


def test_evaluation_and_prompts(runner):
    opened(runner)
    loss = float(runner.ask("eval", offsets=[0, 10, 20])[0]["loss"])
    assert loss == pytest.approx(np.mean([[o + i + 100 for i in range(CTX)] for o in (0, 10, 20)]))
    logits = vectors(runner.ask("prefill", b"ab")[1])
    assert logits[:4].tolist() == [100 + ord("a"), 100 + ord("b"), 100, 100]


def test_reading_and_writing_places(runner):
    opened(runner)
    places = mini_recipe()["places"]
    runner.ask("write", np.arange(16, dtype="<i4").tobytes(), place=places["tokens"])
    runner.ask("run", modes=["eval"])
    assert vectors(runner.ask("read", place=places["losses"], size=16)[1]).tolist() == [100.0 + i for i in range(16)]


def test_a_clock_for_every_dispatch(runner):
    opened(runner)
    times = np.frombuffer(runner.ask("profile", mode="train")[1], "<f8")
    assert times.shape == (2,) and (times >= 0).all() and times.sum() > 0


def test_a_shader_that_does_not_compile_is_named_with_its_line(runner):
    runner.kernels["bad.wgsl"] = b"// fine\nfn half(x: f32) -> f32 {\n  return x * nothing;\n}\n"
    bad = mini_recipe()["pipelines"]
    bad[0]["files"] = ["mini.wgsl", "bad.wgsl"]
    with pytest.raises(
        TinyGPTError, match=r"the kernels bad\.wgsl do not compile on this GPU: line 3: unresolved value"
    ):
        opened(runner, pipelines=bad)


def test_a_kernel_that_cannot_be_built(runner):
    bad = mini_recipe()["pipelines"]
    bad[0]["entry"] = "stop"
    with pytest.raises(TinyGPTError, match=r"the kernel stop of mini\.wgsl cannot be built for this GPU: .*stop"):
        opened(runner, pipelines=bad)


def test_a_kernel_that_is_not_there(runner):
    bad = mini_recipe()["pipelines"]
    bad[0]["files"] = ["gone.wgsl"]
    with pytest.raises(TinyGPTError, match=r"there are no kernels gone\.wgsl"):
        opened(runner, pipelines=bad)


def test_extensions_are_enabled_by_the_files_names(runner):
    runner.kernels["sum_subgroups.wgsl"] = (
        MINI.replace("f32(tokens[first])", "f32(subgroupAdd(i32(at.x >= 0)))").replace("at.x == 0", "true").encode()
    )
    pipelines = mini_recipe()["pipelines"]
    pipelines[0]["files"] = ["sum_subgroups.wgsl"]
    opened(runner, pipelines=pipelines)
    assert steps(runner, [1])[0, 1] >= 4  # lanes


def test_more_memory_than_a_buffer_may_have(runner):
    with pytest.raises(TinyGPTError, match=r"needs a buffer of \d+ GB, but this GPU's have at most .*WebAssembly"):
        opened(runner, buffers=[2**42, *mini_recipe()["buffers"][1:]])


def test_bindings_that_webgpu_forbids(runner):
    """One buffer both read-only and written in a dispatch."""
    bad = mini_recipe()["programs"]
    bad["train"][0][10] = 0
    with pytest.raises(
        TinyGPTError, match=r"the GPU (refused the program 'train'|does not take the program's bindings)"
    ):
        opened(runner, programs=bad)
        steps(runner, [1])


LOSE = """
    if (!globalThis.devices) {
      globalThis.devices = [];
      const request = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function (...wanted) {
        const device = await request.apply(this, wanted);
        devices.push(device);
        return device;
      };
    }
"""


def test_a_device_that_is_lost_refuses_everything_with_one_sentence_and_a_new_one_works(runner):
    runner.ask("evaluate", code=LOSE)
    opened(runner)
    steps(runner, [1, 2])
    runner.ask("evaluate", code="devices.at(-1).destroy();")
    for ask in (
        lambda: steps(runner, [3]),
        lambda: weights(runner),
        lambda: runner.ask("eval", offsets=[0]),
        lambda: runner.ask("prefill", b"a"),
    ):
        with pytest.raises(
            TinyGPTError, match=r"the GPU was lost \(.+\); go on from the last saved model, on the WebA"
        ):
            ask()
    opened(runner)
    assert steps(runner, [1]).shape == (1, 3)


def test_a_device_that_is_lost_while_it_is_waited_for(runner):
    runner.ask("evaluate", code=LOSE)
    runner.ask("evaluate", code="globalThis.losing = setInterval(() => devices.at(-1).destroy(), 50);")
    try:
        with pytest.raises(TinyGPTError, match=r"the GPU was lost|could not be had"):
            for _ in range(1000):
                opened(runner)
                steps(runner, range(1, 50))
    finally:
        runner.ask("evaluate", code="clearInterval(losing);")


def test_a_browser_without_webgpu_says_so(runner):
    code = """
        const { Gpu } = await import("/engine/gpu.ts");
        const request = GPU.prototype.requestAdapter;
        GPU.prototype.requestAdapter = async () => null;
        try { await Gpu.open(); }
        catch (error) { return error.message; }
        finally { GPU.prototype.requestAdapter = request; }
    """
    said = runner.ask("evaluate", code=code)[0]["value"]
    assert said == "there is no WebGPU in this browser, or no GPU it may use; use the WebAssembly engine"
