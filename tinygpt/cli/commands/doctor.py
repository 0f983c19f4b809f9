"""`tinygpt doctor`: what this machine can run, what is missing, and how to get it."""

from __future__ import annotations

import importlib
import json as jsonlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import typer
from rich.text import Text

from tinygpt import __version__
from tinygpt.cli import options
from tinygpt.cli.output import Output, size_of
from tinygpt.core.errors import TinyGPTError

SECONDS_FOR_A_TOOL = 20
VECTOR_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")
MARKS = {"ok": ("✓", "green"), "missing": ("✗", "yellow"), "problem": ("!", "bold red")}


class Finding(NamedTuple):
    name: str
    status: str  # ok, missing (optional), or problem
    detail: str
    remedy: str = ""


def doctor(json: options.Json = False) -> None:
    """What this machine can run, what is missing, and how to get it."""
    findings = [check() for check in CHECKS]
    if json:
        typer.echo(jsonlib.dumps({"tinygpt": __version__, "checks": [found._asdict() for found in findings]}))
        return
    output = Output()
    width = max(len(found.name) for found in findings) + 2
    for found in findings:
        mark, style = MARKS[found.status]
        output.say(Text.assemble((mark, style), " ", (found.name.ljust(width), "bold"), found.detail))
        if found.remedy:
            output.say(Text.assemble(" " * (width + 2), ("→ " + found.remedy, "cyan")))


def python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} ({platform.system()} {platform.machine()})")


def processor() -> Finding:
    from tinygpt.engines.machine import cores

    features = [name for name in VECTOR_FEATURES if name in processor_flags()]
    return Finding("CPU", "ok", f"{cores()} cores; {' '.join(features) or 'vector features unknown'}")


def processor_flags() -> set[str]:
    """As the kernel of Linux names them; elsewhere unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()[2:]}


def memory() -> Finding:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return Finding("memory", "ok", "size unknown")
    return Finding("memory", "ok", f"{size_of(total)}, {size_of(free)} free")


def torch() -> Finding:
    remedy = "pip install 'tinygpt[torch]'"
    try:
        module = importlib.import_module("torch")
    except ImportError as fault:
        missing = isinstance(fault, ModuleNotFoundError) and fault.name == "torch"
        return Finding("torch engine", "missing", "PyTorch is not installed" if missing else str(fault), remedy)
    if module.cuda.is_available():
        names = [module.cuda.get_device_name(number) for number in range(module.cuda.device_count())]
        device = f"CUDA on {', '.join(names)}"
    elif module.backends.mps.is_available():
        device = "Apple GPU (mps)"
    else:
        device = "CPU only, no CUDA or Apple GPU"
    return Finding("torch engine", "ok", f"PyTorch {module.__version__}: {device}")


def native() -> Finding:
    """What the C++ kernels are built with, and for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        compiler = f"ziglang {version('ziglang')}"
    except PackageNotFoundError:
        return Finding("native engine", "missing", "zig, which builds the C++ kernels", "pip install ziglang")
    from tinygpt.engines.native import cpu_lanes

    return Finding("native engine", "ok", f"C++ by {compiler}, {32 * cpu_lanes()}-bit vectors")


def node() -> Finding:
    """Runs what a browser tab would run."""
    wheel = Path(sys.executable).with_name("node")
    program = str(wheel) if wheel.exists() else shutil.which("node")
    found = answer([program, "--version"]) if program else ""
    if not found:
        return Finding("Node", "missing", "runs the tab's code in a terminal", "pip install 'tinygpt[node]'")
    return Finding("Node", "ok", found)


def webgpu() -> Finding:
    try:
        importlib.import_module("wgpu")
    except ImportError:
        return Finding("WebGPU", "missing", "GPUs of any maker, through wgpu", "pip install 'tinygpt[webgpu]'")
    from tinygpt.engines.auto import listed_adapters

    adapters = [adapter.label for adapter in listed_adapters()]
    if not adapters:
        remedy = "install a Vulkan, Metal or D3D12 driver; for a server: docs/headless-gpu.md"
        return Finding("WebGPU", "missing", "wgpu finds no adapter", remedy)
    return Finding("WebGPU", "ok", "; ".join(adapters))


def cache() -> Finding:
    from tinygpt.data import cache_dir

    try:
        folder = cache_dir()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (TinyGPTError, OSError) as fault:
        return Finding("cache", "problem", str(fault), "set TINYGPT_CACHE to a folder you can write to")
    where = str(folder).replace(os.path.expanduser("~"), "~", 1)
    return Finding("cache", "ok", f"{where}, {size_of(shutil.disk_usage(folder).free)} free")


def answer(command: list[str]) -> str:
    """The first line that a program prints; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_FOR_A_TOOL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]


CHECKS: tuple[Callable[[], Finding], ...] = (python, processor, memory, native, torch, node, webgpu, cache)
