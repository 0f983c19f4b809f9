"""The adapter that the engine's tests run on, if there is one."""

import functools
from typing import Any

import pytest

from tinygpt.engines.base import terminal_engine

MISSING = "wgpu finds no Vulkan adapter, not even a software one"


@functools.cache
def gpu_here() -> Any:
    """A software adapter where there is one, so that results do not depend on the machine; or None.

    Its pipelines are kept: engines of one shape share them, for llvmpipe compiles a pipeline when it first runs.
    """
    try:
        from tinygpt.engines.gpu import Gpu, adapter_name, all_adapters, is_software
    except ImportError:
        return None

    class KeepingGpu(Gpu):
        def pipeline(self, row: dict[str, Any]) -> Any:
            made: dict[str, Any] = self.__dict__.setdefault("kept", {})
            if repr(row) not in made:
                made[repr(row)] = super().pipeline(row)
            return made[repr(row)]

    found = [adapter for adapter in all_adapters() if adapter.info["backend_type"] == "Vulkan"]
    chosen = [adapter for adapter in found if is_software(adapter)] or found
    return KeepingGpu(adapter_name(chosen[0])) if chosen else None


def webgpu(config: Any, state: Any = None, base: Any = None, **options: Any) -> Any:
    """A WebGPU engine on it; a test that asks for one where there is no adapter is skipped."""
    if gpu_here() is None:
        pytest.skip(MISSING)
    from tinygpt.engines.webgpu import WebGPUMachine

    return terminal_engine(config, WebGPUMachine(gpu=gpu_here(), **options), state, base)
