"""Engines with their own options in one list, and the webgpu engine through the commands, on any adapter there is."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import metrics, one_line_error, process, succeed, tinygpt
from test_cli_resume import SIGNAL_AT_STEP, assert_same_run, last

from tinygpt.cli.engine_specs import listed_engines, spec_options
from tinygpt.core.config import RunConfig
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.presets import DEFAULT_RECIPE, preset
from tinygpt.engines.select import EngineChoice, available_engines, changed


def has_adapter() -> bool:
    if "webgpu" not in available_engines():
        return False
    from tinygpt.engines.gpu import all_adapters

    return bool(all_adapters())


needs_adapter = pytest.mark.skipif(not has_adapter(), reason="wgpu finds no adapter, not even a software one")
# Odd sizes, and those of tests/engines/test_webgpu_failures.py: software compiles their kernels soon, and once.
SMALLEST = ["--layers", 1, "--d-model", 10, "--heads", 2, "--ctx", 8, "--batch", 2, "--threads", 1]
FEW = ["--eval-every", 4, "--sample-every", 4, "--set", "eval_batches=1", "--set", "sample.tokens=8", "--steps", 12]


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("native", {"name": "native"}),
        ("native:2", {"name": "native", "threads": 2}),
        ("torch:cuda:tf32", {"name": "torch", "device": "cuda", "precision": "tf32"}),
        ("torch:tf32:compile:cuda", {"name": "torch", "device": "cuda", "precision": "tf32", "compile": True}),
        ("torch:cuda:1:bf16", {"name": "torch", "device": "cuda:1", "precision": "bf16"}),
        ("torch:cpu:1", {"name": "torch", "device": "cpu", "threads": 1}),
        ("webgpu:f16", {"name": "webgpu", "precision": "f16"}),
        ("webgpu:llvmpipe", {"name": "webgpu", "device": "llvmpipe"}),
        ("webgpu:4090:f16", {"name": "webgpu", "device": "4090", "precision": "f16"}),
    ],
)
def test_options_behind_an_engine_s_name(spec: str, options: dict[str, Any]) -> None:
    assert spec_options(spec) == options


def test_an_engine_s_own_options_win_over_the_flags() -> None:
    flags = {"precision": "bf16", "threads": 3}
    engines = listed_engines("torch:cpu, torch:float32,native:1:float32", flags)
    assert [label for label, _ in engines] == ["torch:cpu", "torch:float32", "native:1:float32"]
    assert [choice.precision for _, choice in engines] == ["bf16", "float32", "float32"]
    assert [choice.threads for _, choice in engines] == [3, 3, 1]
    assert engines[0].choice.device == "cpu" and engines[1].choice.device == "auto"


@pytest.mark.parametrize(
    ("engines", "sentence"),
    [
        ("nativ:2", "there is no engine 'nativ'; did you mean 'native'?"),
        ("torch:tf32:bf16", "'torch:tf32:bf16' has more than one precision"),
        ("torch:cuda:cpu", "'torch:cuda:cpu' has more than one device"),
        ("torch:compile:compile", "more than one 'compile'"),
        ("native:1:2", "more than one number of threads"),
        ("native:0", "must be at least 1"),
        ("native:compile", "only the torch engine takes compile"),
        ("torch:", "missing behind a colon"),
        ("native:gpu7", "the native engine runs on the CPU, not on 'gpu7'"),
        ("native,native", "'native' is listed twice"),
        ("torch:1,torch:2", "one number of threads for all its engines"),
    ],
)
def test_a_list_that_cannot_be_is_one_sentence(engines: str, sentence: str) -> None:
    assert sentence in one_line_error(tinygpt("bench", "--engines", engines, "--presets", "tiny"))


def test_what_has_no_profile_or_no_memory_to_measure() -> None:
    assert "no profile of its ops; use native, webgpu" in one_line_error(
        tinygpt("bench", "--engines", "native,torch", "--presets", "tiny", "--profile")
    )
    assert "computes in another process" in one_line_error(
        tinygpt("bench", "--engines", "wasm-node", "--presets", "tiny", "--memory")
    )


def test_two_of_an_engine_are_two_rows() -> None:
    flags = ("--presets", "tiny", "--batch", 1, "--seconds", 0.05)
    shown = succeed("bench", "--engines", "native:2,native:1", *flags).stdout
    rows, devices = shown.split("\n\n")[:2]
    assert [line.split()[1] for line in rows.splitlines()[-2:]] == ["native:2", "native:1"]
    assert "2 threads" in devices.splitlines()[0] and "1 thread," in devices.splitlines()[1]


@needs_adapter
def test_a_software_adapter_never_looks_like_a_gpu(tmp_path: Path) -> None:
    from tinygpt.engines.gpu import adapter_name, all_adapters, is_software

    curve = tmp_path / "curve.svg"
    flags = ("--presets", "tiny", "--seconds", 0.01, "--plot", curve)  # of the sizes that parity has below
    webgpu, native = (
        json.loads(line)
        for line in succeed("bench", "--engines", "webgpu,native:1", *flags, "--json").stdout.splitlines()
    )
    adapter = all_adapters()[0]
    assert adapter_name(adapter) in webgpu["device"] and 2 < webgpu["loss"] < 6
    assert webgpu["software"] == is_software(adapter) == ("not a GPU" in webgpu["device"]) and not native["software"]
    assert f"webgpu: {webgpu['device']}" in curve.read_text()


def lowered_of(config: RunConfig) -> GpuLowered:
    """With texts of the least length."""
    return GpuLowered(config, Device(), all_modes(config), config.model.ctx + 1, config.model.ctx + 1)


@needs_adapter
@pytest.mark.slow
def test_profile_counts_an_op_once() -> None:
    lines = succeed("bench", "--engines", "webgpu,native:1", "--presets", "tiny", "--batch", 1, "--profile", "--json")
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    ops = lowered_of(preset("tiny").replace(batch=1)).programs["train"].ops
    assert {row["engine"] for row in rows} == {"webgpu", "native:1"} and all(row["device"] for row in rows)
    for row in rows:
        own = [op for op in ops if op.kernel == row["kernel"]]
        assert row["calls"] == len(own)
        assert row["gflops"] * row["ms"] * 1e6 == pytest.approx(sum(op.flops() for op in own))
        assert row["gbytes_per_s"] * row["ms"] * 1e6 == pytest.approx(sum(op.bytes_touched() for op in own))


@needs_adapter
@pytest.mark.slow
def test_memory_of_the_gpu_beside_the_process_s() -> None:
    row = json.loads(succeed("bench", "--engines", "webgpu", "--presets", "tiny", "--memory", "--json").stdout)
    assert row["gpu_bytes"] > 12 * 70_464 and row["peak_bytes"] > 10e6 and "WebGPU" in row["device"]


@needs_adapter
def test_an_adapter_that_is_not_there() -> None:
    flags = ("--engines", "webgpu", "--presets", "tiny", "--device", "cuda")
    assert "no WebGPU adapter is called 'cuda'; there is '" in one_line_error(tinygpt("bench", *flags))
    assert "not in tf32" in one_line_error(tinygpt("bench", "--engines", "webgpu:tf32", "--presets", "tiny"))


@needs_adapter
def test_parity_with_native() -> None:
    arguments = ("--engines", "webgpu,native:1", "--preset", "tiny", "--steps", 3, "--json")
    result = json.loads(succeed("parity", *arguments).stdout)
    assert result["passed"] and result["engines"] == ["webgpu", "native:1"]
    assert "WebGPU" in result["devices"][0] and "native" in result["devices"][1]


def test_program_for_a_gpu() -> None:
    lowered = lowered_of(preset("tiny", DEFAULT_RECIPE))
    data = json.loads(succeed("program", "tiny", "--gpu", "--json").stdout)
    assert [d["entry"] for d in data["dispatches"]] == [d.entry for d in lowered.dispatches["train"]]
    assert data["bytes"] == sum(buffer["bytes"] for buffer in data["buffers"]) == lowered.plan.bytes()
    shown = succeed("program", "tiny", "--gpu").stdout
    assert f"{len(lowered.dispatches['train'])} dispatches" in shown and "TILE_ROWS" in shown and "arena" in shown
    assert "there are train, validate, eval, likeliest, prefill, decode" in one_line_error(
        tinygpt("program", "--gpu", "--mode", "trian")
    )
    assert "do not go with --gpu" in one_line_error(tinygpt("program", "--gpu", "--plot", "map.png"))


@needs_adapter
def test_program_for_an_adapter() -> None:
    assert "adapter" in succeed("program", "tiny", "--adapter", "auto", "--mode", "decode").stdout
    assert "no WebGPU adapter is called 'none'" in one_line_error(tinygpt("program", "tiny", "--adapter", "none"))


def test_another_engine_leaves_the_device_behind() -> None:
    before = EngineChoice("webgpu", device="llvmpipe", precision="f16", threads=2)
    assert changed(before, {"name": "native"}) == EngineChoice("native", threads=2)
    assert changed(before, {"threads": 1}) == before._replace(threads=1)
    cuda = EngineChoice("auto", device="cuda", precision="tf32")
    assert changed(cuda, {"name": "torch"}) == cuda._replace(name="torch")
    assert changed(cuda, {"name": "native", "device": "cpu"}) == EngineChoice("native", device="cpu")


@pytest.fixture(scope="session")
def on_webgpu(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    run = tmp_path_factory.mktemp("runs") / "webgpu"
    succeed(*training(text_file, run), "--quiet")
    return run


def training(text: Path, run: Path) -> list[object]:
    return [
        "train",
        "--preset",
        "tiny",
        "--recipe",
        "classic",
        *SMALLEST,
        *FEW,
        "--file",
        text,
        "--out",
        run,
        "--engine",
        "webgpu",
    ]


@needs_adapter
@pytest.mark.slow
def test_interrupted_on_webgpu_and_resumed_there_is_the_same(text_file: Path, on_webgpu: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    interrupt = SIGNAL_AT_STEP.format(step=3, signal=int(signal.SIGINT))
    stopped = process(*training(text_file, run), "--json", before=interrupt)
    assert stopped.returncode == 130 and b"Traceback" not in stopped.stderr
    assert all(json.loads(line) for line in stopped.stdout.splitlines())
    assert last(run).state.step < 12
    succeed("train", "--resume", run, "--quiet")
    assert_same_run(on_webgpu, run)


@needs_adapter
def test_a_software_adapter_is_not_used_for_larger_models_unless_it_is_named(text_file: Path, tmp_path: Path) -> None:
    from tinygpt.engines.gpu import adapter_name, find_adapter, is_software

    if not is_software(adapter := find_adapter("auto")):
        pytest.skip("there is a GPU here")
    flags = ("train", "--preset", "small", "--engine", "webgpu", "--file", text_file, "--out", tmp_path / "run")
    refused = one_line_error(tinygpt(*flags))
    assert "computes in software" in refused and f"--device {adapter_name(adapter).split()[0]}" in refused
    assert not (tmp_path / "run").exists()


def test_a_run_goes_from_engine_to_engine(text_file: Path, on_webgpu: Path, tmp_path: Path) -> None:
    """webgpu, native, webgpu: the losses and weights of webgpu alone, but for rounding."""
    run = tmp_path / "run"
    succeed(*training(text_file, run), "--steps", 4, "--quiet")
    for engine, steps in (("native", 8), ("webgpu", 12)):
        succeed("train", "--resume", run, "--engine", engine, "--steps", steps, "--quiet")
    a, b = metrics(on_webgpu), metrics(run)
    assert [event["step"] for event in a] == [event["step"] for event in b] == list(range(1, 13))
    np.testing.assert_allclose([x["loss"] for x in a], [x["loss"] for x in b], rtol=1e-5)
    assert [x["loss"] for x in a[:4]] == [x["loss"] for x in b[:4]]  # still on webgpu


@needs_adapter
def test_webgpu_samples_and_evaluates_like_native(on_webgpu: Path, text_file: Path) -> None:
    texts, losses = set(), []
    for engine in ("webgpu", "native"):
        flags = ("--engine", engine, "--threads", 1)
        texts.add(succeed("sample", on_webgpu, "--prompt", "the ", "--tokens", 12, "--raw", *flags).stdout_bytes)
        losses.append(json.loads(succeed("eval", on_webgpu, *flags, "--json").stdout)["loss"])
    assert len(texts) == 1 and losses[0] == pytest.approx(losses[1], rel=1e-5)
