"""The tab's WebGPU player on a playbook written by hand: what it moves, what it runs, what it says when it cannot."""

import json

import numpy as np
import pytest
from mini import FILES, INPUT, LOOK, MINI, RUNS, SUMS, mini_playbook

from tinygpt.core.errors import TinyGPTError

NUMBERS = np.arange(3, 11, dtype="<i4")


class Opened:
    """The player of a playbook, in its words."""

    def __init__(self, runner, **changes):
        self.runner = runner
        self.found = runner.ask("gpu")[0]
        self.opened = runner.ask("open-gpu", playbook=mini_playbook(**changes))[0]
        self.write([INPUT], NUMBERS)

    def ask(self, type, payload=b"", **fields):
        return self.runner.ask(type, payload, player=self.opened["player"], **fields)

    def write(self, places, array):
        self.ask("write", array.tobytes(), places=places)

    def read(self, places, dtype="<f4"):
        return np.frombuffer(self.ask("read", places=places)[1], dtype)

    def run(self, mode, times=1):
        assert self.ask("run", mode=mode, times=times)[0]["done"] == times


@pytest.fixture
def runner(gpu_chromium):
    gpu_chromium.kernels = dict(FILES)
    yield gpu_chromium
    gpu_chromium.kernels = {}


def test_the_adapter_is_named_and_called_what_it_is(runner):
    player = Opened(runner)
    found = player.found
    assert "swiftshader" in found["adapter"].lower()
    assert found["software"] is True
    described = player.opened["description"]
    assert described.startswith(f"WebGPU, software adapter: {found['adapter']}, not a GPU, ")
    assert runner.capabilities["webgpu"] == {"adapter": found["adapter"], "software": True}


def test_the_device_is_had_with_all_that_the_adapter_can(runner):
    device = Opened(runner).found["device"]
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
        const {{ nameOf }} = await import("/players/gpu.ts");
        const {{ adapterLabel }} = await import("/worker/protocol.ts");
        return adapterLabel(nameOf({{ info: {json.dumps(info)} }}));
    """
    assert runner.ask("evaluate", code=code)[0]["value"] == label


def test_buffers_begin_as_zeros_and_what_is_written_is_read(runner):
    player = Opened(runner)
    assert not player.read(SUMS).any() and player.read(SUMS).size == 160
    values = np.arange(160, dtype="<f4")
    player.write(SUMS, values)
    assert player.read(SUMS).tolist() == values.tolist()
    assert player.read(SUMS[::-1]).tolist() == [*values[100:], *values[:100]]
    player.write([[1, 40, 12], [2, 0, 8]], np.full(5, 7, "<f4"))
    expected = values.copy()
    expected[[10, 11, 12, 100, 101]] = 7
    assert player.read(SUMS).tolist() == expected.tolist()


def test_bytes_that_do_not_fill_a_word_are_written_too(runner):
    player = Opened(runner)
    player.write([[3, 0, 8]], np.frombuffer(b"abcde", np.uint8))
    assert player.read([[3, 0, 8]], np.uint8).tobytes() == b"abcde\0\0\0"


@pytest.mark.parametrize("times", [1, 3, 700])
def test_a_program_runs_as_often_as_it_is_asked_to_each_time_on_what_was_left(runner, times):
    """More often than commands are sent together; both of its dispatches count."""
    player = Opened(runner)
    player.run("add", times)
    assert player.read([RUNS], "<i4").tolist() == [2 * 7 * times]
    parts = [np.resize(NUMBERS, size) for size in (100, 60)]
    np.testing.assert_array_equal(player.read(SUMS), times * 0.5 * np.concatenate(parts))


def test_what_is_written_between_two_runs_is_for_the_second(runner):
    player = Opened(runner)
    player.run("look")
    first = player.read([LOOK]).tolist()
    player.write([INPUT], NUMBERS + 50)
    player.run("look")
    assert first == [100.0 + number for number in NUMBERS]
    assert player.read([LOOK]).tolist() == [150.0 + number for number in NUMBERS]


def test_two_players_share_a_device_and_a_closed_one_is_gone(runner):
    one = Opened(runner)
    other = runner.ask("open-gpu", playbook=mini_playbook())[0]["player"]
    one.run("add")
    assert not np.frombuffer(runner.ask("read", player=other, places=SUMS)[1], "<f4").any()
    runner.ask("close", player=other)
    one.run("add")
    assert one.read([RUNS], "<i4").tolist() == [28]


def test_a_program_that_there_is_not(runner):
    with pytest.raises(TinyGPTError, match="there is no program 'sub'"):
        Opened(runner).run("sub")


def test_a_clock_for_every_dispatch(runner):
    times = np.frombuffer(Opened(runner).ask("clock", mode="add")[1], "<f8")
    assert times.shape == (2,) and (times >= 0).all() and times.sum() > 0


def test_a_shader_that_does_not_compile_is_named_with_its_line(runner):
    runner.kernels["bad.wgsl"] = b"// fine\nfn half(x: f32) -> f32 {\n  return x * nothing;\n}\n"
    bad = mini_playbook()["pipelines"]
    bad[0]["files"] = ["mini.wgsl", "bad.wgsl"]
    with pytest.raises(
        TinyGPTError, match=r"the kernels bad\.wgsl do not compile on this GPU: line 3: unresolved value"
    ):
        Opened(runner, pipelines=bad)


def test_a_kernel_that_cannot_be_built(runner):
    bad = mini_playbook()["pipelines"]
    bad[0]["entry"] = "stop"
    with pytest.raises(TinyGPTError, match=r"the kernel stop of mini\.wgsl cannot be built for this GPU: .*stop"):
        Opened(runner, pipelines=bad)


def test_a_kernel_that_is_not_there(runner):
    bad = mini_playbook()["pipelines"]
    bad[0]["files"] = ["gone.wgsl"]
    with pytest.raises(TinyGPTError, match=r"there are no kernels gone\.wgsl"):
        Opened(runner, pipelines=bad)


def test_extensions_are_enabled_by_the_files_names(runner):
    counting = MINI.replace("at: vec3u) {", "at: vec3u) {\n  let lanes = subgroupAdd(1.0);")
    runner.kernels["sum_subgroups.wgsl"] = counting.replace("f32(input[at.x % 8u])", "lanes").encode()
    pipelines = mini_playbook()["pipelines"]
    pipelines[0]["files"] = ["sum_subgroups.wgsl"]
    player = Opened(runner, pipelines=pipelines)
    player.run("add")
    assert player.read(SUMS)[0] >= 2  # half of four lanes


def test_more_memory_than_a_buffer_may_have(runner):
    with pytest.raises(TinyGPTError, match=r"needs a buffer of .*B, but this GPU's have at most .*WebAssembly"):
        Opened(runner, buffers=[2**42, *mini_playbook()["buffers"][1:]])


def test_bindings_that_webgpu_forbids(runner):
    """One buffer both read-only and written in a dispatch."""
    bad = mini_playbook()["programs"]
    bad["add"][0][7:10] = [0, 512, 256]
    with pytest.raises(TinyGPTError, match=r"the GPU (refused the program 'add'|does not take the program's bindings)"):
        Opened(runner, programs=bad).run("add")


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
    player = Opened(runner)
    player.run("add")
    runner.ask("evaluate", code="devices.at(-1).destroy();")
    for ask in (
        lambda: player.run("add"),
        lambda: player.read(SUMS),
        lambda: player.write([INPUT], NUMBERS),
        lambda: player.ask("clock", mode="add"),
    ):
        with pytest.raises(
            TinyGPTError, match=r"the GPU was lost \(.+\); go on from the last saved model, on the WebA"
        ):
            ask()
    Opened(runner).run("add")


def test_a_device_that_is_lost_while_it_is_waited_for(runner):
    runner.ask("evaluate", code=LOSE)
    runner.ask("evaluate", code="globalThis.losing = setInterval(() => devices.at(-1)?.destroy(), 50);")
    try:
        with pytest.raises(TinyGPTError, match=r"the GPU was lost|could not be had"):
            for _ in range(1000):
                player = Opened(runner)
                player.run("add", 50)
                player.read(SUMS)
    finally:
        runner.ask("evaluate", code="clearInterval(losing);")


def test_a_browser_without_webgpu_says_so(runner):
    code = """
        const { Gpu } = await import("/players/gpu.ts");
        const request = GPU.prototype.requestAdapter;
        GPU.prototype.requestAdapter = async () => null;
        try { await Gpu.open(); }
        catch (error) { return error.message; }
        finally { GPU.prototype.requestAdapter = request; }
    """
    said = runner.ask("evaluate", code=code)[0]["value"]
    assert said == "there is no WebGPU in this browser, or no GPU it may use; use the WebAssembly engine"
