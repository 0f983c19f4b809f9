"""What `auto` stands for: the engine that is done first, its start included. Never a software adapter.

A machine without a GPU is told by its device files, at no cost. Where there may be one, wgpu is asked, in a process of
its own; PyTorch, which takes seconds to import, only where it would be the quickest.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.ops.record import RING
from tinygpt.engines.machine import cores

# Of an NVIDIA H200 with 16 cores (docs/performance.md): GFLOP of a step; milliseconds of webgpu, PyTorch eager and
# PyTorch in one CUDA graph. Adapters do not tell how fast they are: on a lesser GPU all of these are longer.
STEPS = (
    (2.25, 0.59, 7.12, 0.52),
    (7.7, 0.90, 9.96, 0.82),
    (25.0, 1.92, 14.1, 1.31),
    (39.0, 2.73, 16.9, 1.68),
    (118.0, 6.36, 26.3, 2.82),
    (614.0, 26.4, 29.4, 5.45),
)
CORE_GFLOPS = 50.0  # of native
CORE_GBYTES = 5.0  # of weights that native reads in a second, for each byte that it writes
GPU_BYTE = 0.0006  # seconds of a byte that webgpu or PyTorch writes
STARTS = {"native": 0.5, "webgpu": 4.0, "torch": 10.0, "compiled": 35.0}  # seconds until the first step is done
WORTH_MEASURING = 20.0  # seconds of a run on native; for a longer one, a GPU that is in no table is tried
LISTING_SECONDS = 30
WHYS = {
    "native": "done before a GPU has started",
    "webgpu": "this GPU is done sooner than the CPU",
    "torch": "this GPU is done sooner than the CPU",
    "compiled": "for so long a run the quickest, compiling included",
}

LISTING = """
import json
from tinygpt.engines.gpu import adapter_label, all_adapters, is_software
print(json.dumps([(adapter_label(a), a.info["adapter_type"], is_software(a)) for a in all_adapters()]))
"""


class Work(NamedTuple):
    """What an engine is wanted for: so many training steps (a forward pass is a third of one), or bytes to write."""

    steps: float = 0.0
    written: int = 0


class Adapter(NamedTuple):
    label: str
    kind: str  # in WebGPU's words: DiscreteGPU, IntegratedGPU, CPU
    software: bool


class Taken(NamedTuple):
    name: str
    compile: bool
    why: str


class Here:
    """This machine, looked at no closer than it must be."""

    root = Path("/")

    def installed(self, package: str) -> bool:
        return find_spec(package) is not None

    def cores(self) -> int:
        return cores()

    def may_have_gpu(self) -> bool:
        """Whether it is worth a second to ask wgpu. macOS and Windows do not say."""
        return sys.platform in ("darwin", "win32") or self.may_have_cuda() or any(self.root.glob("dev/dri/renderD*"))

    def may_have_cuda(self) -> bool:
        """An NVIDIA driver's device; in Windows' Linux, that of any GPU."""
        if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
            return False
        windows = Path(os.environ.get("SYSTEMROOT", ""), "System32", "nvcuda.dll")
        return any(path.exists() for path in (self.root / "dev/nvidiactl", self.root / "dev/dxg", windows))

    def has_cuda(self) -> bool:
        import torch

        return torch.cuda.is_available()

    def adapters(self) -> list[Adapter]:
        """Best first. A bad driver may crash or hang, so it does that elsewhere."""
        return listed_adapters()

    def measured(self, config: RunConfig, name: str) -> float:
        return seconds_per_step(config, name)


def listed_adapters() -> list[Adapter]:
    command = [sys.executable, "-c", LISTING]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LISTING_SECONDS, check=True)
        return [Adapter(*row) for row in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def take(config: RunConfig, work: Work, here: Here) -> Taken:
    """The engine for this work on this machine, and why."""
    adapters = here.adapters() if here.installed("wgpu") and here.may_have_gpu() else []
    gpus = [adapter for adapter in adapters if not adapter.software]
    cuda = here.installed("torch") and here.may_have_cuda()
    cpu = [name for name, package in (("native", "ziglang"), ("torch", "torch")) if here.installed(package)][:1]
    if not gpus and not cuda:
        if not cpu:
            raise TinyGPTError("there is no GPU here, and no engine for the CPU; get one with: pip install ziglang")
        return Taken(cpu[0], False, f"no GPU here, only a {adapters[0].label}" if adapters else "no GPU here")
    times = {kind: seconds(kind, config, work, here.cores()) for kind in STARTS}
    if gpus and gpus[0].kind != "DiscreteGPU" and not cuda and work.steps and times["native"] > WORTH_MEASURING:
        for name in ("native", "webgpu"):
            times[name] = STARTS[name] + work.steps * here.measured(config, name)
    kinds = cpu + ["webgpu"] * bool(gpus)
    best = min(kinds + ["torch", "compiled"] * cuda, key=lambda kind: times[kind])
    if best in ("torch", "compiled") and not here.has_cuda():
        if not kinds:
            raise TinyGPTError("there is no GPU here, and no engine for the CPU; get one with: pip install ziglang")
        best = min(kinds, key=lambda kind: times[kind])
    beside = ", and than PyTorch on it" if cuda and best == "webgpu" else ""
    return Taken("torch" if best == "compiled" else best, best == "compiled", WHYS[best] + beside)


def seconds(kind: str, config: RunConfig, work: Work, cores: int) -> float:
    """How long the work takes, as far as can be told without doing it."""
    train, model = config.train, config.model
    gflop = 6e-9 * parameter_count(model) * train.batch * train.grad_accum * model.ctx
    if kind == "native":
        step = gflop / (CORE_GFLOPS * cores)
        byte = 4e-9 * parameter_count(model) / CORE_GBYTES
    else:
        step = 1e-3 * interpolated(gflop, ("webgpu", "torch", "compiled").index(kind))
        byte = GPU_BYTE
    return STARTS[kind] + work.steps * step + work.written * byte


def interpolated(gflop: float, column: int) -> float:
    """Milliseconds of a step: between two figures a power law, below all the least, above all in proportion."""
    for low, high in pairwise(STEPS):
        if gflop <= high[0]:
            share = max(0.0, math.log(gflop / low[0]) / math.log(high[0] / low[0]))
            return float(low[1 + column] * (high[1 + column] / low[1 + column]) ** share)
    return STEPS[-1][1 + column] * gflop / STEPS[-1][0]


def seconds_per_step(config: RunConfig, name: str) -> float:
    """Of some tenths of a second's steps, after one that compiles and touches all memory."""
    import numpy as np

    from tinygpt.engines.select import EngineChoice, make_engine

    base = None if config.lora is None else np.zeros(parameter_count(config.model), np.float32)
    engine = make_engine(config, EngineChoice(name), None, base)
    text = bytes(range(256)) * (2 + config.model.ctx // 256)
    run_now(engine.load_corpus(text, text))
    timed(engine, 1)
    steps, took = 1, 0.0
    while took < 0.2 and steps <= RING // 2:
        steps *= 2
        took = timed(engine, steps)
    run_now(engine.close())
    return took / steps


def timed(engine: Engine, steps: int) -> float:
    began = time.perf_counter()
    run_now(engine.train(steps))
    run_now(engine.read_metrics())
    return time.perf_counter() - began
