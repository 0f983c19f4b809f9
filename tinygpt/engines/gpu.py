"""A GPU through wgpu-py: which adapter, what it can do, and pipelines made of the WGSL kernels."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wgpu

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Device

KERNELS = Path(__file__).parents[1] / "kernels"
SOFTWARE = ("llvmpipe", "lavapipe", "softpipe", "swiftshader", "warp", "microsoft basic render")
FEATURES = ("subgroup", "shader-f16", "timestamp-query")
LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-storage-size",
)
# Adapters do not say how many processors they have; too high a guess costs little.
PROCESSORS = {"DiscreteGPU": 128, "IntegratedGPU": 32, "CPU": 8}
COMPILERS = 8  # threads that make pipelines

Progress = Callable[[int, int], None]  # pipelines made so far, of how many


def adapter_name(adapter: Any) -> str:
    info = adapter.info
    return str(info["device"] or info["description"] or info["vendor"] or "unnamed")


def is_software(adapter: Any) -> bool:
    name = f"{adapter_name(adapter)} {adapter.info['description']}".lower()
    return adapter.info["adapter_type"] == "CPU" or any(part in name for part in SOFTWARE)


def adapter_label(adapter: Any) -> str:
    """Its name for people; one that computes on the CPU is never called a GPU."""
    name = adapter_name(adapter)
    return f"software adapter: {name}, not a GPU" if is_software(adapter) else f"{name}, {adapter.info['backend_type']}"


@functools.cache
def all_adapters() -> list[Any]:
    """Real GPUs first, discrete ones before integrated ones; each with its first backend only."""
    if not os.environ.get("XDG_RUNTIME_DIR") and not os.environ.get("MESA_VK_DEVICE_SELECT"):
        # Where there is no desktop, Mesa's layer that asks it for its favourite GPU only complains on stderr.
        os.environ.setdefault("NODEVICE_SELECT", "1")
    order = ["DiscreteGPU", "IntegratedGPU"]
    found: dict[str, Any] = {}
    for adapter in wgpu.gpu.enumerate_adapters_sync():
        if adapter.info["backend_type"] != "OpenGL":
            found.setdefault(adapter_name(adapter), adapter)
    kinds = {name: adapter.info["adapter_type"] for name, adapter in found.items()}
    return sorted(found.values(), key=lambda a: [*order, kinds[adapter_name(a)]].index(kinds[adapter_name(a)]))


def find_adapter(wanted: str) -> Any:
    """The best adapter, or the first whose name has `wanted` in it."""
    adapters = all_adapters()
    if not adapters:
        raise TinyGPTError(
            "there is no WebGPU adapter here: install a Vulkan driver (on Debian mesa-vulkan-drivers), "
            "or use --engine native"
        )
    fitting = [a for a in adapters if wanted == "auto" or wanted.lower() in adapter_name(a).lower()]
    if not fitting:
        names = ", ".join(f"'{adapter_name(adapter)}'" for adapter in adapters)
        raise TinyGPTError(f"no WebGPU adapter is called '{wanted}'; there is {names}")
    return fitting[0]


class Gpu:
    """An adapter's device with the adapter's own limits, and its pipelines by their description in a playbook."""

    def __init__(self, wanted: str = "auto") -> None:
        self.adapter = find_adapter(wanted)
        self.name = adapter_name(self.adapter)
        self.software = is_software(self.adapter)
        self.features = [name for name in FEATURES if name in self.adapter.features]
        limits = {name: self.adapter.limits[name] for name in LIMITS}
        with explained(self.name):
            self.device = self.adapter.request_device_sync(required_features=self.features, required_limits=limits)
        self.queue = self.device.queue
        self.modules: dict[tuple[str, ...], Any] = {}
        self.layouts: dict[str, Any] = {}

    def label(self) -> str:
        return adapter_label(self.adapter)

    def describe(self) -> Device:
        """What lowering must know of it."""
        limits, described = self.adapter.limits, Device()
        described.max_buffer = limits["max-buffer-size"]
        described.max_binding = limits["max-storage-buffer-binding-size"]
        described.max_groups = limits["max-compute-workgroups-per-dimension"]
        described.max_invocations = limits["max-compute-invocations-per-workgroup"]
        described.max_shared = limits["max-compute-workgroup-storage-size"]
        described.subgroups = "subgroup" in self.features
        described.processors = PROCESSORS.get(self.adapter.info["adapter_type"], 32)
        return described

    def timestamp_period(self) -> float:
        """Nanoseconds of a tick."""
        try:
            from wgpu.backends.wgpu_native._ffi import lib

            return float(lib.wgpuQueueGetTimestampPeriod(self.queue._internal))
        except (ImportError, AttributeError):
            return 1.0

    def buffer(self, size: int, usage: int) -> Any:
        with explained(self.name):
            return self.device.create_buffer(size=max(size, 4), usage=usage)

    def module(self, files: tuple[str, ...]) -> Any:
        if files not in self.modules:
            try:
                text = "\n".join((KERNELS / file).read_text(encoding="utf-8") for file in files)
                if any("f16" in file for file in files):
                    text = "enable f16;\n" + text
                module = self.device.create_shader_module(code=text)
            except OSError as error:
                raise TinyGPTError(
                    f"the kernel {error.filename} cannot be read: {error.strerror}; install TinyGPT again"
                ) from error
            except wgpu.GPUError as error:
                raise TinyGPTError(trouble(self.name, error) or shader_sentence(files, str(error))) from error
            self.modules[files] = without_checks(self.device, text) or module
        return self.modules[files]

    def pipelines(self, described: list[dict[str, Any]], progress: Progress | None = None) -> list[Any]:
        """The pipelines that a playbook describes, made on several threads."""
        for row in described:
            self.module(tuple(row["files"]))
        made = 0

        def make(row: dict[str, Any]) -> Any:
            nonlocal made
            pipeline = self.pipeline(row)
            made += 1
            if progress is not None:
                progress(made, len(described))
            return pipeline

        with ThreadPoolExecutor(COMPILERS) as pool:
            return list(pool.map(make, described))

    def pipeline(self, row: dict[str, Any]) -> Any:
        constants = {
            name: struct.unpack("<f", struct.pack("<i", value))[0] if is_float else value
            for name, is_float, value in row["constants"]
        }
        try:
            return self.device.create_compute_pipeline(
                layout=self.device.create_pipeline_layout(bind_group_layouts=[self.group_layout(row["bindings"])]),
                compute={
                    "module": self.module(tuple(row["files"])),
                    "entry_point": row["entry"],
                    "constants": constants,
                },
            )
        except wgpu.GPUError as error:
            said = shader_sentence(tuple(row["files"]), str(error), row["entry"])
            raise TinyGPTError(trouble(self.name, error) or said) from error

    def group_layout(self, bindings: str) -> Any:
        """`bindings` has an r for each that is read, a w for each that is written."""
        if bindings not in self.layouts:
            self.layouts[bindings] = self.make_layout(bindings)
        return self.layouts[bindings]

    def make_layout(self, bindings: str) -> Any:
        entries = []
        for number, access in enumerate(bindings):
            kind = "read-only-storage" if access == "r" else "storage"
            entries.append({"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}})
        return self.device.create_bind_group_layout(entries=entries)

    def bind_group(self, bindings: str, places: list[tuple[Any, int, int]]) -> Any:
        """`places`: buffer, offset and size in bytes of each binding."""
        entries = [
            {"binding": number, "resource": {"buffer": buffer, "offset": offset, "size": size}}
            for number, (buffer, offset, size) in enumerate(places)
        ]
        return self.device.create_bind_group(layout=self.group_layout(bindings), entries=entries)


def without_checks(device: Any, text: str) -> Any:
    """A module without wgpu's checks at run time, or None where this wgpu-py does not make one.

    wgpu guards every access and counts every loop's rounds, so that a web page cannot do harm. The matmul is 15 times
    faster without: its loops are unrolled again. Our kernels keep to their bindings by themselves, and are tested to.
    """
    try:
        from wgpu.backends.wgpu_native import _api
        from wgpu.backends.wgpu_native._ffi import ffi, lib

        code = text.encode()
        source = ffi.new("WGPUShaderSourceWGSL *")
        kept = ffi.new("char[]", code)
        source.code.data, source.code.length = kept, len(code)
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        made = lib.wgpuDeviceCreateShaderModuleTrusted(device._internal, descriptor, 0)
        return _api.GPUShaderModule("", made, device)
    except (ImportError, AttributeError, TypeError):
        return None


def record(work: Any, dispatches: Iterable[tuple[Any, Any, int, int, int]]) -> None:
    """Record dispatches (pipeline, bind group, grid) in a compute pass.

    Straight through the C interface where it is found, a third of the time of wgpu-py's own methods: in small models
    recording a step takes as long as the step.
    """
    try:
        from wgpu.backends.wgpu_native._ffi import ffi, lib

        inside = work._internal
        set_pipeline, set_group, dispatch, null = (
            lib.wgpuComputePassEncoderSetPipeline,
            lib.wgpuComputePassEncoderSetBindGroup,
            lib.wgpuComputePassEncoderDispatchWorkgroups,
            ffi.NULL,
        )
    except (ImportError, AttributeError):
        return record_by_methods(work, dispatches)
    last = None
    for pipeline, group, x, y, z in dispatches:
        if pipeline is not last:
            set_pipeline(inside, pipeline._internal)
            last = pipeline
        set_group(inside, 0, group._internal, 0, null)
        dispatch(inside, x, y, z)
    return None


def record_by_methods(work: Any, dispatches: Iterable[tuple[Any, Any, int, int, int]]) -> None:
    for pipeline, group, x, y, z in dispatches:
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(x, y, z)


def shader_sentence(files: tuple[str, ...], message: str, entry: str = "") -> str:
    """Of a text that does not compile: the file and its line, or the entry point that no pipeline can be made of."""
    before = message.partition("┌─")[0].splitlines()
    lines = [line.strip().removeprefix("Shader '' parsing error: ") for line in before]
    said = [line for line in lines if line and line not in ("Validation Error", "Caused by:") and "In wgpu" not in line]
    found = re.search(r"wgsl:(\d+):\d+", message)
    which = f"{entry} of {files[-1]}" if entry else line_of(files, int(found[1])) if found else files[-1]
    return (
        f"the kernel {which} does not compile on this GPU: {' '.join(said)[:300]}; "
        f"update its driver, or use --engine native"
    )


def line_of(files: tuple[str, ...], line: int) -> str:
    """Where a line of the joined text comes from."""
    line -= any("f16" in file for file in files)
    for file in files:
        count = len((KERNELS / file).read_text(encoding="utf-8").split("\n"))
        if line <= count:
            return f"{file}, line {line},"
        line -= count
    return files[-1]


def trouble(name: str, error: Exception) -> str | None:
    """A sentence for what has nothing to do with the work that was asked for: no memory, or no device any more."""
    text = str(error).lower()
    if isinstance(error, wgpu.GPUOutOfMemoryError) or re.search("(not enough|out of)[a-z ]* memory", text):
        return f"{name} has no memory left for this run; use a smaller preset, batch or ctx, or --engine native"
    if "lost" in text:
        return (
            f"the connection to {name} is lost (its driver was reset, or a step took too long); "
            f"go on from the last checkpoint with --resume, on it or with --engine native"
        )
    return None


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """What wgpu raises, as one sentence that says what to try."""
    try:
        yield
    except (wgpu.GPUError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise TinyGPTError(
            trouble(name, error) or f"{name} refused its work: {text[:300]}; use --engine native"
        ) from error
