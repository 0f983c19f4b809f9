"""The WGSL kernels, replayed by the tab's own player on Chromium's WebGPU (`webgpu-chromium`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.gpu_recipe import device_of, gpu_recipe
from tinygpt.engines.base import FloatArray, State
from tinygpt.engines.driven import DrivenEngine
from tinygpt.engines.runner import Runner

MOST_STEPS = 32
FLOPS_TOGETHER = 5e12
FLOPS_TOGETHER_SOFTWARE = 5e10


class WebGpuChromiumEngine(DrivenEngine):
    name = "webgpu-chromium"

    def __init__(self, config: RunConfig, state: State | None = None, *, runner: Runner | None = None) -> None:
        runner = runner or Runner("chromium")
        found, _ = runner.ask("gpu")
        self.software: bool = found["software"]
        super().__init__(config, runner, MOST_STEPS, FLOPS_TOGETHER_SOFTWARE if self.software else FLOPS_TOGETHER)
        self.recipe: dict[str, Any] = gpu_recipe(config, device_of(found["device"]))
        self.places = self.recipe["places"]
        opened, _ = self.runner.ask("open-gpu", recipe=self.recipe)
        self.description = opened["description"]
        if state is not None:
            self.set_state(state)

    def describe(self) -> str:
        return f"{self.description}, in Chromium"

    def profile(self, mode: str) -> FloatArray:
        """Nanoseconds of each dispatch of a program, by the GPU's own clock; what it changes is changed."""
        return np.frombuffer(self.runner.ask("profile", mode=mode)[1], dtype="<f8").astype(np.float32)


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
    if precision not in ("auto", "float32"):
        raise TinyGPTError(f"the webgpu-chromium engine computes in float32, not in {precision}")
    return WebGpuChromiumEngine(config, state)
