"""Peak resident memory of a process that trains, each measured in a fresh process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice

STEPS = 2

SCRIPT = """
import json, sys
from tinygpt.bench.memory import own_peak
from tinygpt.bench.workload import Run
from tinygpt.core.config import preset
from tinygpt.engines.select import EngineChoice, make_engine
name, choice, steps = json.loads(sys.argv[1])
config = preset(name)
Run(config, make_engine(config, EngineChoice(*choice))).advance(steps)
print(own_peak())
"""


def own_peak() -> int:
    """Bytes this process had resident at its fullest."""
    if sys.platform == "linux":  # getrusage would count what the process was before it became this program
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def peak_memory(preset: str, choice: EngineChoice) -> int:
    """Bytes, after a few training steps of the preset on that engine."""
    arguments = json.dumps([preset, list(choice), STEPS])
    done = subprocess.run([sys.executable, "-c", SCRIPT, arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise TinyGPTError(f"training {preset} on {choice.name} failed: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout)
