"""What goes wrong on a GPU ends in one clear sentence, and the last checkpoint goes on elsewhere."""

import shutil
import subprocess
import sys

import pytest
from engine_lab import loaded, state_of, trained
from gpu_here import MISSING, gpu_here, webgpu
from typer.testing import CliRunner

from tinygpt.bench.workload import made_up_text
from tinygpt.cli.app import app
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.core.train.validation import validate
from tinygpt.engines.base import terminal_engine
from tinygpt.store.formats import load_tinygpt

if gpu_here() is None:
    pytest.skip(MISSING, allow_module_level=True)

import wgpu

from tinygpt.engines import gpu as module
from tinygpt.engines.gpu import Gpu
from tinygpt.engines.webgpu import WebGPUMachine, WebGPUPlayer

pytestmark = pytest.mark.xdist_group("wgpu")

MICRO = preset("tiny").replace(layers=1, d_model=10, heads=2, ctx=8, batch=2)
LOST = (
    r"the connection to .+ is lost \(.+\); go on from the last checkpoint with --resume, on it or with --engine native"
)
NO_MEMORY = r"has no memory left for this run; use a smaller preset, batch or ctx, or --engine native"


@pytest.fixture
def gpu():
    """A device of its own: what happens to it happens to nobody else."""
    return Gpu(gpu_here().name)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A copy of the kernels, to be spoiled."""
    monkeypatch.setattr(module, "KERNELS", shutil.copytree(module.KERNELS, tmp_path / "kernels"))
    return tmp_path / "kernels"


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def opened(config=MICRO, **options):
    return loaded(terminal_engine(config, WebGPUMachine(**options)))


def refusal(gpu, config=MICRO, **options):
    with pytest.raises(TinyGPTError) as refused:
        opened(config, gpu=gpu, **options)
    sentence = str(refused.value)
    assert "\n" not in sentence and len(sentence) < 600
    return sentence


# --- kernels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", ["layernorm.wgsl", "width_1.wgsl", "activation.wgsl"]
)  # whole, before and between others
def test_a_text_that_does_not_compile_is_named_with_its_line(gpu, kernels, file):
    text = (kernels / file).read_text()
    (kernels / file).write_text(text + "\nconst SPOILED = nothing;\n")
    line = len(text.split("\n")) + 1
    said = refusal(gpu)
    assert said.startswith(f"the kernel {file}, line {line}, does not compile on this GPU: ")
    assert "`nothing`" in said and said.endswith("; update its driver, or use --engine native")


@pytest.mark.skipif("shader-f16" not in gpu_here().features, reason="this adapter has no float16")
def test_the_line_is_right_where_float16_is_enabled_too(gpu, kernels):
    text = (kernels / "linear.wgsl").read_text()
    (kernels / "linear.wgsl").write_text(text + "\nconst SPOILED = nothing;\n")
    said = refusal(gpu, MICRO.replace(d_model=16), f16=True)
    assert said.startswith(f"the kernel linear.wgsl, line {len(text.split(chr(10))) + 1}, does not compile")


def test_a_kernel_that_no_pipeline_can_be_made_of_is_named(gpu, kernels):
    replace(kernels / "layernorm.wgsl", "override EPS: f32;", "const EPS = 1e-5f;")
    said = refusal(gpu)
    assert said.startswith("the kernel layernorm of layernorm.wgsl does not compile on this GPU: ")
    assert "'EPS'" in said and said.endswith("; update its driver, or use --engine native")


def test_a_kernel_that_is_missing_is_named(gpu, kernels):
    (kernels / "layernorm.wgsl").unlink()
    assert refusal(gpu).endswith("layernorm.wgsl cannot be read: No such file or directory; install TinyGPT again")


# --- a lost device -------------------------------------------------------------------------------------------


def test_a_device_that_is_lost_refuses_everything_with_one_sentence(gpu):
    engine = opened(gpu=gpu)
    trained(engine, 2)
    state = state_of(engine)
    gpu.device.destroy()
    for ask in (
        lambda: trained(engine, 1),
        lambda: state_of(engine),
        lambda: run_now(engine.import_state(state)),
        lambda: run_now(validate(engine)),
        lambda: run_now(engine.prefill(b"a")),
        lambda: opened(gpu=gpu),
        lambda: gpu.module(("pick_row.wgsl",)),
        lambda: gpu.pipelines(engine.lowered.playbook()["pipelines"][:1]),
    ):
        gpu.modules.clear()
        with pytest.raises(TinyGPTError, match=LOST):
            ask()
    run_now(engine.close())
    assert len(trained(loaded(webgpu(MICRO, state)), 1)) == 1  # another device goes on


def test_a_device_lost_in_training_costs_no_checkpoint_and_native_goes_on(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_bytes(made_up_text()[:5000])
    folder, run, asked = tmp_path / "run", WebGPUPlayer.run, []

    async def lose_at_12(player, mode, times):
        asked.extend([mode] * times)
        if asked.count("train") >= 12:
            player.gpu.device.destroy()
        return await run(player, mode, times)

    monkeypatch.setattr(WebGPUPlayer, "run", lose_at_12)
    sizes = [
        "--recipe",
        "classic",
        "--layers",
        "1",
        "--d-model",
        "10",
        "--heads",
        "2",
        "--ctx",
        "8",
        "--batch",
        "2",
        "--steps",
        "20",
    ]
    calm = ["--eval-every", "0", "--sample-every", "0", "--set", "checkpoint_every=5", "--quiet"]
    where = ["--engine", "webgpu", "--device", gpu_here().name]
    start = ["train", "--preset", "tiny", *sizes, *calm, "--file", str(tmp_path / "text.txt"), "--out", str(folder)]
    lost = CliRunner().invoke(app, [*start, *where])
    assert lost.exit_code == 1, lost.stderr
    (said,) = [line for line in lost.stderr.splitlines() if line.startswith("error: ")]
    assert said.startswith("error: the connection to ") and "--resume" in said and "--engine native" in said
    assert "Traceback" not in lost.stderr
    assert load_tinygpt(folder / "checkpoints/last.tinygpt").state.step == 10
    resumed = CliRunner().invoke(app, ["train", "--resume", str(folder), "--engine", "native", "--quiet"])
    assert resumed.exit_code == 0, resumed.stderr
    assert load_tinygpt(folder / "checkpoints/last.tinygpt").state.step == 20


CLOSED = """
import sys, weakref
from tinygpt.core.presets import preset
from tinygpt.core.engine.contract import run_now
from tinygpt.core.train.validation import validate
from tinygpt.engines.webgpu import webgpu_engine
engine = webgpu_engine(preset("tiny").replace(layers=1, d_model=10, heads=2, ctx=8, batch=2), device=sys.argv[1])
run_now(engine.prefill(b"a"))
device = weakref.ref(engine.player.gpu.device)
run_now(engine.close())
print(device())
"""


def test_a_closed_engine_leaves_no_device_behind():
    """In a process where nothing else knows of it."""
    command = [sys.executable, "-c", CLOSED, gpu_here().name]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "None\n"


# --- memory and limits ---------------------------------------------------------------------------------------


def test_no_memory_left(gpu, monkeypatch):
    for error in (wgpu.GPUOutOfMemoryError("Not enough memory left."), wgpu.GPUValidationError("Out of memory")):

        def fail(error=error, **_):
            raise error

        monkeypatch.setattr(gpu.device, "create_buffer", fail)
        assert refusal(gpu).endswith(NO_MEMORY)


def test_a_buffer_that_the_device_does_not_make(gpu):
    limit = gpu.adapter.limits["max-buffer-size"]
    with pytest.raises(TinyGPTError, match=r"refused its work: .* greater than the maximum .*; use --engine native"):
        gpu.buffer(4 * limit, wgpu.BufferUsage.STORAGE)


@pytest.mark.parametrize(
    "changes, limits, says",
    [
        ({"batch": 64, "ctx": 64}, {"max_binding": 2**20}, r"logits has 4\.19 MB.*use a smaller batch or ctx, or"),
        ({"d_model": 256}, {"max_binding": 2**18}, r"qkv\.weight has 786 KB.*a smaller d_model, or"),
        ({"batch": 64}, {"max_groups": 7}, r"workgroups in a row, more than this GPU's 7; use a smaller batch or ctx"),
    ],
    ids=["activations", "weights", "grid"],
)
def test_a_run_beyond_the_limits_is_refused_before_anything_is_made(gpu, monkeypatch, changes, limits, says):
    described = gpu.describe()
    for name, limit in limits.items():
        setattr(described, name, limit)
    monkeypatch.setattr(gpu, "describe", lambda: described)
    monkeypatch.setattr(gpu, "buffer", None)
    with pytest.raises(TinyGPTError, match=says):
        opened(MICRO.replace(**changes), gpu=gpu)


# --- adapters ------------------------------------------------------------------------------------------------


def test_no_adapter_at_all(monkeypatch):
    monkeypatch.setattr(module, "all_adapters", list)
    with pytest.raises(
        TinyGPTError, match=r"no WebGPU adapter here: install a Vulkan driver .*, or use --engine native"
    ):
        opened()


def test_an_adapter_of_another_name():
    with pytest.raises(TinyGPTError, match=r"no WebGPU adapter is called 'voodoo 2'; there is '.+'"):
        opened(device="voodoo 2")


def test_float16_where_there_is_none(gpu):
    gpu.features = []
    assert refusal(gpu, f16=True) == f"{gpu.name} has no float16; leave out --precision f16"


def test_times_where_there_are_none(gpu):
    gpu.features = []
    engine = opened(gpu=gpu)
    with pytest.raises(TinyGPTError, match="has no timestamps, so its ops cannot be timed"):
        run_now(engine.memory.clock("train"))


def test_another_precision():
    done = CliRunner().invoke(app, ["train", "--engine", "webgpu", "--precision", "bf16", "--preset", "tiny"])
    assert done.exit_code == 1 and "in float32 or f16, not in bf16; use --engine torch" in done.stderr
