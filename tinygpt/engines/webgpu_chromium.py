"""The WGSL kernels, replayed by the tab's own player on Chromium's WebGPU (`webgpu-chromium`)."""

from __future__ import annotations

from typing import Any

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.playbook import device_of
from tinygpt.engines.base import Base, State, terminal_engine
from tinygpt.engines.driven import DrivenPlayer
from tinygpt.engines.runner import Runner
from tinygpt.kernels.init import initial_values


class WebGpuChromiumMachine(Machine):
    name = "webgpu-chromium"
    starts = ""

    def __init__(self, *, f16: bool = False, runner: Runner | None = None) -> None:
        self.runner = runner or Runner("chromium")
        found, _ = self.runner.ask("gpu")
        self.software: bool = found["software"]
        self.device = device_of(found["device"])
        if f16 and not self.device.f16:
            raise TinyGPTError(f"{found['adapter']} has no float16; leave out --precision f16")
        self.device.f16 = f16
        self.kept = "float16 tiles" if f16 else "float32"

    def lower(self, config: RunConfig, modes: list[str], **how: Any) -> GpuLowered:
        return GpuLowered(config, self.device, modes, **how)

    async def open(self, lowered: GpuLowered) -> DrivenPlayer:
        opened, _ = self.runner.ask("open-gpu", playbook=lowered.playbook())
        return DrivenPlayer(self.runner, opened, f", {self.kept}, in Chromium", self.software, ahead=True)

    async def start_values(self, config: RunConfig) -> Any:
        return initial_values(config)

    def describe(self) -> str:
        return f"WebGPU, {self.kept}, in Chromium"


def chromium_engine(
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,
    threads: int | None = None,
) -> ProgramEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "gpu"):
        raise TinyGPTError(f"the webgpu-chromium engine runs on the GPU that Chromium gives it, not on '{device}'")
    if precision not in ("auto", "float32", "f16"):
        raise TinyGPTError(f"the webgpu-chromium engine computes in float32 or f16, not in {precision}")
    return terminal_engine(config, WebGpuChromiumMachine(f16=precision == "f16"), state, base)
