"""The WGSL kernels, replayed by the tab's own player on Chromium's WebGPU (`webgpu-chromium`)."""

from __future__ import annotations

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import Op
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.recipe import device_of, recipe_of
from tinygpt.engines.base import State
from tinygpt.engines.driven import DrivenEngine
from tinygpt.engines.runner import Runner

MOST_STEPS = 32
FLOPS_TOGETHER = 5e12
FLOPS_TOGETHER_SOFTWARE = 5e10


class WebGpuChromiumEngine(DrivenEngine):
    name = "webgpu-chromium"

    def __init__(
        self, config: RunConfig, state: State | None = None, *, f16: bool = False, runner: Runner | None = None
    ) -> None:
        runner = runner or Runner("chromium")
        found, _ = runner.ask("gpu")
        self.software: bool = found["software"]
        device = device_of(found["device"])
        if f16 and not device.f16:
            raise TinyGPTError(f"{found['adapter']} has no float16; leave out --precision f16")
        device.f16 = self.f16 = f16
        super().__init__(config, runner, MOST_STEPS, FLOPS_TOGETHER_SOFTWARE if self.software else FLOPS_TOGETHER)
        self.lowered = GpuLowered(config, device)
        self.recipe = recipe_of(config, self.lowered)
        self.places = self.recipe["places"]
        opened, _ = self.runner.ask("open-gpu", recipe=self.recipe)
        self.description = opened["description"]
        if state is not None:
            self.set_state(state)

    def describe(self) -> str:
        return f"{self.description}, {'float16 tiles' if self.f16 else 'float32'}, in Chromium"

    def profile(self, mode: str) -> list[tuple[Op, float]]:
        """Each op of a program with its seconds on the GPU, by timestamps around each of its dispatches."""
        nanoseconds = np.frombuffer(self.runner.ask("profile", mode=mode)[1], dtype="<f8")
        return self.lowered.op_times(mode, nanoseconds.tolist())


def chromium_engine(
    config: RunConfig,
    state: State | None = None,
    *,
    device: str,
    precision: str,
    compile: bool,
    threads: int | None,
) -> WebGpuChromiumEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "gpu"):
        raise TinyGPTError(f"the webgpu-chromium engine runs on the GPU that Chromium gives it, not on '{device}'")
    if precision not in ("auto", "float32", "f16"):
        raise TinyGPTError(f"the webgpu-chromium engine computes in float32 or f16, not in {precision}")
    return WebGpuChromiumEngine(config, state, f16=precision == "f16")
