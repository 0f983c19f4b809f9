"""What `auto` takes: on machines that are made up, and on this one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.engines import auto
from tinygpt.engines.auto import Adapter, Here, Work, interpolated, listed_adapters, take
from tinygpt.engines.select import EngineChoice, settle

H200 = Adapter("NVIDIA H200, Vulkan", "DiscreteGPU", False)
LAPTOP = Adapter("Intel(R) UHD, Vulkan", "IntegratedGPU", False)
LLVMPIPE = Adapter("software adapter: llvmpipe, not a GPU", "CPU", True)


class MadeUp(Here):
    """Of which everything is known, and what was asked of it is noted."""

    def __init__(
        self,
        *adapters: Adapter,
        hint: bool = True,
        nvidia: bool = False,
        cuda: bool | None = None,
        packages: str = "ziglang torch wgpu",
        step_times: dict[str, float] | None = None,
    ) -> None:
        self.found, self.hint, self.nvidia = list(adapters), hint, nvidia
        self.cuda = nvidia if cuda is None else cuda
        self.packages, self.step_times = packages.split(), step_times or {}
        self.asked: list[str] = []

    def installed(self, package: str) -> bool:
        return package in self.packages

    def cores(self) -> int:
        return 8

    def may_have_gpu(self) -> bool:
        return self.hint

    def may_have_cuda(self) -> bool:
        return self.nvidia

    def adapters(self) -> list[Adapter]:
        self.asked.append("wgpu")
        return self.found

    def has_cuda(self) -> bool:
        self.asked.append("torch")
        return self.cuda

    def measured(self, config: RunConfig, name: str) -> float:
        self.asked.append(name)
        return self.step_times[name]


def taken(here: Here, size: str, steps: int | None = None, **work: Any) -> tuple[str, bool]:
    config = preset(size)
    found = take(config, Work(**work) if work else Work(config.train.steps if steps is None else steps), here)
    return found.name, found.compile


def test_without_a_sign_of_a_gpu_nothing_is_asked_or_imported() -> None:
    here = MadeUp(H200, hint=False)
    assert take(preset("mega"), Work(10**9), here) == ("native", False, "no GPU here") and here.asked == []
    without_wgpu = MadeUp(H200, packages="ziglang torch")
    assert taken(without_wgpu, "mega") == ("native", False) and without_wgpu.asked == []


def test_a_software_adapter_is_never_taken() -> None:
    found = take(preset("mega"), Work(10**9), MadeUp(LLVMPIPE))
    assert found.name == "native" and found.why.startswith("no GPU here, only a software adapter: llvmpipe")
    assert taken(MadeUp(LLVMPIPE, H200), "huge") == ("webgpu", False)


def test_a_run_that_the_cpu_ends_at_once_stays_there() -> None:
    found = take(preset("tiny"), Work(30), MadeUp(H200, nvidia=True))
    assert found == ("native", False, "done before a GPU has started")


def test_webgpu_for_most_runs_and_cuda_in_one_graph_where_that_pays_for_compiling() -> None:
    here = MadeUp(H200, nvidia=True)
    assert taken(here, "huge") == taken(here, "medium") == ("webgpu", False) and "torch" not in here.asked
    assert taken(here, "huge", 20_000) == ("torch", True) and here.asked[-1] == "torch"
    assert taken(here, "mega", 10_000) == ("torch", True)
    assert taken(here, "small", 100_000) == ("webgpu", False)  # the difference is less than compiling takes
    assert "than PyTorch on it" in take(preset("huge"), Work(5000), here).why


def test_cuda_without_an_adapter_and_a_driver_without_cuda() -> None:
    assert taken(MadeUp(nvidia=True), "huge") == ("torch", True)
    assert taken(MadeUp(nvidia=True, packages="ziglang torch"), "huge", 400) == ("torch", False)
    assert taken(MadeUp(nvidia=True, cuda=False), "huge") == ("native", False)
    assert taken(MadeUp(H200, nvidia=True, cuda=False), "huge", 100_000) == ("webgpu", False)


@pytest.mark.parametrize(("webgpu", "native", "name"), [(0.01, 0.05, "webgpu"), (0.05, 0.01, "native")])
def test_a_gpu_of_which_nothing_is_known_is_tried_against_the_cpu(webgpu: float, native: float, name: str) -> None:
    here = MadeUp(LAPTOP, step_times={"webgpu": webgpu, "native": native})
    assert taken(here, "huge") == (name, False) and here.asked == ["wgpu", "native", "webgpu"]
    short = MadeUp(LAPTOP)
    assert taken(short, "tiny", 100) == ("native", False) and short.asked == ["wgpu"]


def test_writing_is_for_the_cpu_unless_the_model_is_large() -> None:
    here = MadeUp(H200, nvidia=True)
    assert taken(here, "huge", written=320) == ("native", False)
    assert taken(here, "behemoth", written=320) == ("webgpu", False)


def test_no_engine_for_the_cpu() -> None:
    assert taken(MadeUp(H200, packages="wgpu"), "tiny", 1) == ("webgpu", False)
    with pytest.raises(TinyGPTError, match="no engine for the CPU; get one with: pip install ziglang"):
        taken(MadeUp(LLVMPIPE, packages="wgpu"), "tiny")


def test_what_was_asked_for_is_not_questioned() -> None:
    here = MadeUp(H200, nvidia=True)
    for choice in (EngineChoice(threads=2), EngineChoice(device="cpu"), EngineChoice("native")):
        assert settle(choice, preset("mega"), Work(10**9), here) == (choice._replace(name="native"), "")
    cuda = EngineChoice(device="cuda", precision="tf32")
    assert settle(cuda, preset("tiny"), Work(1), here) == (cuda._replace(name="torch"), "")
    assert here.asked == []
    compiled = settle(EngineChoice(), preset("mega"), Work(10**5), here)
    assert compiled.choice == EngineChoice("torch", compile=True) and compiled.why


@pytest.mark.parametrize(
    ("files", "visible", "gpu", "cuda"),
    [
        ([], None, False, False),
        (["dev/nvidiactl"], None, True, True),
        (["dev/nvidiactl"], "", False, False),
        (["dev/dri/renderD128"], None, True, False),
        (["dev/dri/card0"], None, False, False),
        (["dev/dxg"], None, True, True),
    ],
)
def test_signs_of_a_gpu(
    files: list[str], visible: str | None, gpu: bool, cuda: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("SYSTEMROOT", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    here = Here()
    here.root = tmp_path
    assert (here.may_have_gpu(), here.may_have_cuda()) == (gpu, cuda)


@pytest.mark.parametrize("script", ["print('not JSON')", "import os; os.abort()", "import time; time.sleep(60)"])
def test_a_driver_that_fails_or_hangs_is_no_gpu(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "LISTING", script)
    monkeypatch.setattr(auto, "LISTING_SECONDS", 2)
    assert listed_adapters() == []


def test_figures_between_figures() -> None:
    assert interpolated(0.01, 0) == interpolated(2.25, 0) == 0.59
    assert interpolated(118.0, 0) == pytest.approx(6.36) and interpolated(6140.0, 2) == pytest.approx(54.5)
    assert 0.90 < interpolated(15.0, 0) < 1.92


def test_a_step_is_timed_on_this_machine() -> None:
    config = preset("tiny").replace(layers=1, d_model=16, heads=2, ctx=16, batch=2)
    assert 0 < auto.seconds_per_step(config, "native") < 10
