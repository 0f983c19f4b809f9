"""Memory of a process that trains, each measured in a fresh process of its own: resident at its peak, and a GPU's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice

STEPS = 2
MEASURED = ("native", "torch", "webgpu")  # the others compute in another process


class Memory(NamedTuple):
    peak_bytes: int  # resident
    gpu_bytes: int | None  # None: the engine computes on the CPU
    device: str


SCRIPT = """
import json, sys
from tinygpt.bench.memory import gpu_bytes, own_peak
from tinygpt.bench.workload import Run
from tinygpt.core.presets import preset
from tinygpt.engines.select import EngineChoice, make_engine
values, choice, steps = json.loads(sys.argv[1])
config = preset("tiny").replace(**values)
engine = make_engine(config, EngineChoice(*choice))
Run(config, engine).advance(steps)
print(json.dumps([own_peak(), gpu_bytes(engine), engine.describe()]))
"""


def own_peak() -> int:
    """Bytes this process had resident at its fullest."""
    if sys.platform == "linux":  # getrusage would count what the process was before it became this program
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    try:
        import resource
    except ImportError:
        raise TinyGPTError("Windows does not say what memory a process had at most; use Linux or macOS") from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def gpu_bytes(engine: Any) -> int | None:
    """Bytes on the GPU: of webgpu the buffers of its plan, of PyTorch what it took from CUDA at its fullest."""
    if engine.name == "webgpu":
        return int(engine.lowered.bytes())
    if engine.name == "torch" and engine.device.type == "cuda":
        import torch

        return torch.cuda.max_memory_reserved(engine.device)
    return None


def peak_memory(name: str, config: RunConfig, choice: EngineChoice) -> Memory:
    """After a few training steps of a run on that engine."""
    arguments = json.dumps([config.values(), list(choice), STEPS])
    done = subprocess.run([sys.executable, "-c", SCRIPT, arguments], capture_output=True, text=True)
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1].rpartition("TinyGPTError: ")[2]
        raise TinyGPTError(f"training {name} on {choice.name} failed: {why}")
    return Memory(*json.loads(done.stdout))
