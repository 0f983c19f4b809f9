"""The WGSL kernels through wgpu-py, on any vendor's GPU: a player of the dispatches that core has planned."""

from __future__ import annotations

import gc
import time
from typing import Any, NamedTuple

import numpy as np
import wgpu

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import Op, Tensor
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.recipe import recipe_of
from tinygpt.engines.base import FloatArray, State, StepMetrics
from tinygpt.engines.gpu import Gpu, Progress, explained, record
from tinygpt.engines.replay import Array, ProgramEngine

STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
RING = 64  # steps whose metrics the GPU keeps until they are read
READ_EVERY = 0.1  # seconds: metrics are read so often, that the GPU waits for nobody in between
SLOT = 8  # bytes of the ring a step: its loss, its gradient's norm
LAST_OF_A_STEP = ("train", "update")  # programs that leave a loss and a norm


class Played(NamedTuple):
    """A dispatch, ready to be recorded."""

    pipeline: Any
    group: Any
    x: int
    y: int
    z: int


class WebGPUEngine(ProgramEngine):
    name = "webgpu"

    def __init__(
        self,
        config: RunConfig,
        state: State | None = None,
        *,
        device: str = "auto",
        f16: bool = False,
        progress: Progress | None = None,
        gpu: Gpu | None = None,
    ) -> None:
        super().__init__(config)
        self.gpu = gpu or Gpu(device)
        self.software = self.gpu.software
        described = self.gpu.describe()
        if f16 and "shader-f16" not in self.gpu.features:
            raise TinyGPTError(f"{self.gpu.name} has no float16; leave out --precision f16")
        described.f16 = f16
        self.f16 = f16
        self.lowered = GpuLowered(config, described)
        self.memory = self.lowered.memory
        self.recipe = recipe_of(config, self.lowered)
        self.bytes = sum(self.recipe["buffers"])
        self.buffers = [self.gpu.buffer(size, STORAGE) for size in self.recipe["buffers"]]
        self.ring = self.gpu.buffer(RING * SLOT, STORAGE)
        self.programs = self.prepare(progress)
        self.inputs = np.zeros(self.recipe["buffers"][self.recipe["inputs"]] // 4, dtype=np.int32)
        self.under_way: list[int] = []  # steps whose metrics are in the ring
        self.since = 0.0  # when the first of them was sent off
        self.metrics_every = 1
        self.start(state)

    def prepare(self, progress: Progress | None) -> dict[str, list[Played]]:
        """Every program's dispatches, with their pipelines and bind groups."""
        described = self.recipe["pipelines"]
        pipelines = self.gpu.pipelines(described, progress)
        groups: dict[tuple[int, ...], Any] = {}
        programs: dict[str, list[Played]] = {}
        for mode, dispatches in self.recipe["programs"].items():
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

    # --- running ---------------------------------------------------------------------------------------------

    def run(self, mode: str) -> None:
        self.submit(mode)

    def submit(self, mode: str, slot: int | None = None) -> None:
        """Send one program off; with a slot, its loss and norm go to that place of the ring."""
        with explained(self.gpu.name):
            self.gpu.queue.write_buffer(self.buffers[self.recipe["inputs"]], 0, self.inputs)
            encoder = self.gpu.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            record(work, self.programs[mode])
            work.end()
            if slot is not None:
                for i, name in enumerate(("loss", "norm")):
                    buffer, offset, _ = self.recipe["places"][name]
                    encoder.copy_buffer_to_buffer(self.buffers[buffer], offset, self.ring, slot * SLOT + 4 * i, 4)
            self.gpu.queue.submit([encoder.finish()])

    def read(self, buffer: Any, offset: int, floats: int) -> FloatArray:
        with explained(self.gpu.name):
            return np.frombuffer(self.gpu.queue.read_buffer(buffer, offset, 4 * floats), dtype=np.float32)

    def output(self, tensor: Tensor) -> FloatArray:
        buffer, offset, floats = self.recipe["places"][tensor.name]
        return self.read(self.buffers[buffer], offset, floats)

    def input(self, tensor: Tensor) -> Array:
        """A place in what is sent with the next program."""
        _, offset, floats = self.recipe["places"][tensor.name]
        there = self.inputs[offset // 4 : offset // 4 + floats]
        return there if tensor.dtype == "i32" else there.view(np.float32)

    # --- training --------------------------------------------------------------------------------------------

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        if len(self.under_way) == RING:
            self.collect()
        if not self.under_way:
            self.since = time.perf_counter()
        for mode in self.fed_programs(step, lr, offsets):
            self.submit(mode, len(self.under_way) if mode in LAST_OF_A_STEP else None)
        self.under_way.append(step)
        self.step = step

    def collect(self) -> None:
        """Read the ring, waiting for the steps under way, and see how often that should be done."""
        if not self.under_way:
            return
        rows = self.read(self.ring, 0, RING * SLOT // 4).reshape(RING, 2)[: len(self.under_way)].astype(float).tolist()
        self.metrics += [StepMetrics(step, *row) for step, row in zip(self.under_way, rows, strict=True)]
        spent = time.perf_counter() - self.since
        self.metrics_every = max(1, min(RING, round(READ_EVERY * len(rows) / spent)))
        self.under_way = []

    async def read_metrics(self) -> list[StepMetrics]:
        self.collect()
        ready, self.metrics = self.metrics, []
        return ready

    # --- state -----------------------------------------------------------------------------------------------

    def start(self, state: State | None) -> None:
        """Buffers are all zeros: give them that state, or else start values."""
        if state is not None:
            self.load_state(state)
            return
        weights = self.zeros()
        self.draw_weights(weights)
        self.write_flat("w", weights)

    def zeros(self) -> FloatArray:
        """A flat vector."""
        return np.zeros(self.memory.layout.size, dtype=np.float32)

    def segment_buffers(self, vector: str) -> list[tuple[int, int, Any]]:
        """Of the flat vector w, m or v: each segment's start, floats and buffer."""
        column = 2 + ("w", "m", "v").index(vector)
        return [(row[0], row[1], self.buffers[row[column]]) for row in self.recipe["segments"]]

    def write_flat(self, vector: str, values: FloatArray) -> None:
        for start, floats, buffer in self.segment_buffers(vector):
            with explained(self.gpu.name):
                self.gpu.queue.write_buffer(buffer, 0, np.ascontiguousarray(values[start : start + floats]))

    def read_flat(self, vector: str) -> FloatArray:
        return np.concatenate([self.read(buffer, 0, floats) for _, floats, buffer in self.segment_buffers(vector)])

    async def export_state(self) -> State:
        return State(self.step, *(self.in_file_order(self.read_flat(vector)) for vector in ("w", "m", "v")))

    def load_state(self, state: State) -> None:
        self.check_state(state)
        for vector, values in (("w", state.w), ("m", state.m), ("v", state.v)):
            flat = self.zeros()
            if values is not None:
                self.spread(values, flat)
            self.write_flat(vector, flat)
        self.step = state.step

    # --- measuring -------------------------------------------------------------------------------------------

    def profile(self, mode: str) -> list[tuple[Op, float]]:
        """Each op of a program with its seconds on the GPU, by timestamps around each of its dispatches."""
        if "timestamp-query" not in self.gpu.features:
            raise TinyGPTError(f"{self.gpu.name} has no timestamps, so its ops cannot be timed")
        dispatches = self.lowered.dispatches[mode]
        queries = self.gpu.device.create_query_set(type="timestamp", count=2 * len(dispatches))
        resolved = self.gpu.buffer(16 * len(dispatches), wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC)
        encoder = self.gpu.device.create_command_encoder()
        for i, played in enumerate(self.programs[mode]):
            marks = {"query_set": queries, "beginning_of_pass_write_index": 2 * i, "end_of_pass_write_index": 2 * i + 1}
            work = encoder.begin_compute_pass(timestamp_writes=marks)
            record(work, [played])
            work.end()
        encoder.resolve_query_set(queries, 0, 2 * len(dispatches), resolved, 0)
        with explained(self.gpu.name):
            self.gpu.queue.submit([encoder.finish()])
            times = np.frombuffer(self.gpu.queue.read_buffer(resolved), dtype=np.uint64).reshape(-1, 2).astype(np.int64)
        nanoseconds = (times[:, 1] - times[:, 0]) * self.gpu.timestamp_period()
        return self.lowered.op_times(mode, nanoseconds.tolist())

    async def close(self) -> None:
        """The device goes with the last engine on it."""
        for buffer in [*self.buffers, self.ring]:
            buffer.destroy()
        del buffer, self.buffers, self.ring, self.programs, self.gpu
        gc.collect()  # in wgpu-py a device and its queue refer to each other


def webgpu_engine(
    config: RunConfig, state: State | None, *, device: str, precision: str, compile: bool, threads: int | None
) -> WebGPUEngine:
    """The engine as the command line asks for it, with a bar while pipelines are made."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    if precision not in ("auto", "float32", "f16"):
        raise TinyGPTError(
            f"the webgpu engine computes in float32 or f16, not in {precision}; use --engine torch for that"
        )
    columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        return WebGPUEngine(
            config,
            state,
            device=device,
            f16=precision == "f16",
            progress=lambda made, total: bar.update(task, completed=made, total=total),
        )
