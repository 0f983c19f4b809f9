"""Runs one op's WGSL kernels through wgpu-py on a case's arrays: every tensor in a buffer of its own, with guards.

Whoever imports this is skipped where there is no adapter.
"""

import functools
from typing import Any

import numpy as np
import pytest
from cases import call_of
from wgsl_case import GUARD, outputs_of, stored_arrays
from wgsl_text import joined
from words import GUARD_BITS, as_words

from tinygpt.core.ops.gpu import Device, Dispatch, Target

wgpu = pytest.importorskip("wgpu", reason="wgpu-py is not installed")

from tinygpt.engines.gpu import all_adapters, is_software, without_checks  # noqa: E402

ADAPTERS = [adapter for adapter in all_adapters() if adapter.info["backend_type"] == "Vulkan"]
if not ADAPTERS:
    pytest.skip("wgpu finds no Vulkan adapter, not even a software one", allow_module_level=True)


@functools.cache
def gpu() -> Any:
    """A software adapter where there is one, so that results do not depend on the machine."""
    adapter = sorted(ADAPTERS, key=is_software)[-1]
    wanted = [name for name in ("subgroup", "shader-f16") if name in adapter.features]
    return adapter.request_device_sync(required_features=wanted)


def run_kernel(kernel: str, case: dict[str, Any], device: Device, slices: int = 1, times: int = 1) -> dict[str, Any]:
    """The outputs that the case has after so many runs, by name; the case is left as it was."""
    op, stored = call_of(kernel, case), stored_arrays(kernel, case, slices)
    buffers = {name: buffer_with(array) for name, array in stored.items()}
    play(op.declared.dispatch(op, Target(device, slices)), buffers, stored, times)
    after = {}
    for name, array in stored.items():
        raw = np.frombuffer(gpu().queue.read_buffer(buffers[name]), np.int32)
        size = as_words(array).size
        assert (raw[size:] == GUARD_BITS).all(), f"{kernel} wrote behind {name}"
        after[name] = raw[:size]
    return outputs_of(kernel, case, stored, after, slices)


def buffer_with(array: np.ndarray) -> Any:
    data = np.concatenate([as_words(array), np.full(GUARD, GUARD_BITS, np.int32)])
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    return gpu().create_buffer_with_data(data=data, usage=usage)


@functools.cache
def module(files: tuple[str, ...], f16: bool) -> Any:
    """As the engine has it: without wgpu's checks, which would keep a kernel from the guards."""
    text = ("enable f16;\n" if f16 else "") + joined(files)
    return without_checks(gpu(), text) or gpu().create_shader_module(code=text)


def play(dispatches: list[Dispatch], buffers: dict[str, Any], stored: dict[str, np.ndarray], times: int = 1) -> None:
    """`buffers` grow by the scratch that the dispatches name; it begins as NaN.

    They are bound to their end, guards and all: some drivers keep a kernel within its bindings.
    """
    for dispatch in dispatches:
        layout, entries = [], []
        for number, (_, tensor) in enumerate(dispatch.reads + dispatch.writes):
            first = 0
            if tensor is None:
                buffer = buffer_with(np.zeros(4, np.float32))
            else:
                name, first = tensor.root().name, tensor.start - tensor.offset()
                if name not in buffers:
                    stored[name] = np.full(tensor.size, np.nan, np.float32)
                    buffers[name] = buffer_with(stored[name])
                buffer = buffers[name]
            kind = "read-only-storage" if number < len(dispatch.reads) else "storage"
            layout.append({"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}})
            entries.append({"binding": number, "resource": {"buffer": buffer, "offset": 4 * first}})
        group_layout = gpu().create_bind_group_layout(entries=layout)
        pipeline = gpu().create_compute_pipeline(
            layout=gpu().create_pipeline_layout(bind_group_layouts=[group_layout]),
            compute={
                "module": module(tuple(dispatch.files), any("f16" in file for file in dispatch.files)),
                "entry_point": dispatch.entry,
                "constants": dispatch.constants,
            },
        )
        encoder = gpu().create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, gpu().create_bind_group(layout=group_layout, entries=entries))
        for _ in range(times):
            work.dispatch_workgroups(*dispatch.grid)
        work.end()
        gpu().queue.submit([encoder.finish()])
