"""The WGSL kernels through wgpu-py, on any vendor's GPU: a player of the dispatches that core has planned."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import wgpu

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.engines.base import Base, State, flat_bytes, terminal_engine
from tinygpt.engines.gpu import Gpu, Progress, explained, record
from tinygpt.kernels.init import initial_values

STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
MAPPED = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ
SENT_TOGETHER = 512  # dispatches, at least: fewer submits cost less, but the GPU should begin soon


class Played(NamedTuple):
    """A dispatch, ready to be recorded."""

    pipeline: Any
    group: Any
    x: int
    y: int
    z: int


class WebGPUMachine(Machine):
    name = "webgpu"
    starts = ""

    def __init__(
        self, device: str = "auto", f16: bool = False, progress: Progress | None = None, gpu: Gpu | None = None
    ) -> None:
        self.gpu = gpu or Gpu(device)
        if f16 and "shader-f16" not in self.gpu.features:
            raise TinyGPTError(f"{self.gpu.name} has no float16; leave out --precision f16")
        self.f16 = f16
        self.progress = progress

    def lower(self, config: RunConfig, modes: list[str], **how: Any) -> GpuLowered:
        device = self.gpu.describe()
        device.f16 = self.f16
        return GpuLowered(config, device, modes, **how)

    async def open(self, lowered: GpuLowered) -> WebGPUPlayer:
        return WebGPUPlayer(self.gpu, lowered.playbook(), self.f16, self.progress)

    async def start_values(self, config: RunConfig) -> Any:
        return initial_values(config)

    def describe(self) -> str:
        return f"WebGPU, {self.gpu.label()}, {'float16 tiles' if self.f16 else 'float32'}"

    def close(self) -> None:
        """The device goes with the last machine on it."""
        del self.gpu
        gc.collect()  # in wgpu-py a device and its queue refer to each other


# Parameters of the preset tiny, and a little more for other options.
LARGEST_IN_SOFTWARE = 100_000


class WebGPUPlayer(Player):
    def __init__(self, gpu: Gpu, playbook: dict[str, Any], f16: bool, progress: Progress | None = None) -> None:
        self.gpu = gpu
        self.f16 = f16
        self.software = gpu.software
        self.bytes = sum(playbook["buffers"])
        self.buffers = [gpu.buffer(size, STORAGE) for size in playbook["buffers"]]
        self.programs = self.prepare(playbook, progress)
        self.stopping = False

    def prepare(self, playbook: dict[str, Any], progress: Progress | None) -> dict[str, list[Played]]:
        """Every program's dispatches, with their pipelines and bind groups."""
        described = playbook["pipelines"]
        pipelines = self.gpu.pipelines(described, progress)
        groups: dict[tuple[int, ...], Any] = {}
        programs: dict[str, list[Played]] = {}
        for mode, dispatches in playbook["programs"].items():
            programs[mode] = []
            for words in dispatches:
                number, x, y, z = words[:4]
                bindings = described[number]["bindings"]
                key = (bindings, *words[4:])
                if key not in groups:
                    places = [(self.buffers[words[i]], words[i + 1], words[i + 2]) for i in range(4, len(words), 3)]
                    with explained(self.gpu.name):
                        groups[key] = self.gpu.bind_group(bindings, places)
                programs[mode].append(Played(pipelines[number], groups[key], x, y, z))
        return programs

    def describe(self) -> str:
        kept = "float16 tiles" if self.f16 else "float32"
        return f"WebGPU, {self.gpu.label()}, {kept}, {self.bytes / 1e6:.1f} MB"

    async def write(self, places: list[list[int]], data: Any) -> None:
        source, at = flat_bytes(data), 0
        with explained(self.gpu.name):
            for buffer, start, size in places:
                part = source[at : at + size]
                if len(part) % 4:
                    part = memoryview(bytes(part).ljust(len(part) + -len(part) % 4, b"\0"))
                self.gpu.queue.write_buffer(self.buffers[buffer], start, part)
                at += size

    async def read(self, places: list[list[int]]) -> bytes:
        """All pieces in one buffer that the host maps, and copies once: a state is as large as three models."""
        with explained(self.gpu.name):
            gathered = self.gpu.buffer(sum(size for _, _, size in places), MAPPED)
            encoder, at = self.gpu.device.create_command_encoder(), 0
            for buffer, start, size in places:
                encoder.copy_buffer_to_buffer(self.buffers[buffer], start, gathered, at, size)
                at += size
            self.gpu.queue.submit([encoder.finish()])
            gathered.map_sync(wgpu.MapMode.READ)
            data = bytes(gathered.read_mapped(copy=False))
            gathered.destroy()
        return data

    async def run(self, mode: str, times: int) -> int:
        program = self.programs[mode]
        together = max(1, -(-SENT_TOGETHER // len(program)))
        self.stopping = False
        done = 0
        while done < times and not self.stopping:
            count = min(together, times - done)
            self.submit(program, count)
            done += count
        return done

    def stop(self) -> None:
        """What the GPU was given, it does."""
        self.stopping = True

    def submit(self, program: list[Played], times: int) -> None:
        with explained(self.gpu.name):
            encoder = self.gpu.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            for _ in range(times):
                record(work, program)
            work.end()
            self.gpu.queue.submit([encoder.finish()])

    async def clock(self, mode: str) -> list[float]:
        """By timestamps around each dispatch."""
        if "timestamp-query" not in self.gpu.features:
            raise TinyGPTError(f"{self.gpu.name} has no timestamps, so its ops cannot be timed")
        program = self.programs[mode]
        queries = self.gpu.device.create_query_set(type="timestamp", count=2 * len(program))
        resolved = self.gpu.buffer(16 * len(program), wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC)
        encoder = self.gpu.device.create_command_encoder()
        for i, played in enumerate(program):
            marks = {"query_set": queries, "beginning_of_pass_write_index": 2 * i, "end_of_pass_write_index": 2 * i + 1}
            work = encoder.begin_compute_pass(timestamp_writes=marks)
            record(work, [played])
            work.end()
        encoder.resolve_query_set(queries, 0, 2 * len(program), resolved, 0)
        with explained(self.gpu.name):
            self.gpu.queue.submit([encoder.finish()])
            times = np.frombuffer(self.gpu.queue.read_buffer(resolved), dtype=np.uint64).reshape(-1, 2).astype(np.int64)
        return [float(tick) for tick in (times[:, 1] - times[:, 0]) * (1e-9 * self.gpu.timestamp_period())]

    async def close(self) -> None:
        for buffer in self.buffers:
            buffer.destroy()
        del self.buffers, self.programs, self.gpu


def webgpu_engine(
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,
    threads: int | None = None,
) -> ProgramEngine:
    """The engine as the command line asks for it, with a bar while pipelines are made."""
    if precision not in ("auto", "float32", "f16"):
        raise TinyGPTError(
            f"the webgpu engine computes in float32 or f16, not in {precision}; use --engine torch for that"
        )
    machine = WebGPUMachine(device, precision == "f16", CompilingBar())
    if machine.gpu.software and device == "auto" and parameter_count(config.model) > LARGEST_IN_SOFTWARE:
        raise TinyGPTError(
            f"the only WebGPU adapter here is {machine.gpu.name}, which computes in software: this model would take "
            f"hours. Use --engine native, or name the adapter: --device {machine.gpu.name.split()[0]}"
        )
    return terminal_engine(config, machine, state, base)


class CompilingBar:
    """Shows how many pipelines are made, while they are."""

    def __init__(self) -> None:
        self.bar: Any = None

    def __call__(self, made: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self.bar is None:
            columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn())
            console = Console(stderr=True)
            self.bar = Progress(*columns, transient=True, console=console, disable=not console.is_terminal)
            self.bar.start()
            self.task = self.bar.add_task("", total=total)
        self.bar.update(self.task, completed=made, total=total)
        if made == total:
            self.bar.stop()
            self.bar = None
