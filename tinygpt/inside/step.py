"""A step as one page: its ops as a line of time, its tensors as a shelf, and behind each op its formula and sources.

It needs nothing else and asks nothing of a network, like the page of a model (page.py).
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from tinygpt.core.look.step import ops_data, slots_data
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.op import Op
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.inside.page import filled

SOURCES = Path(__file__).parents[1] / "kernels"
SHARED_TEXT = re.compile(r"(width_\d|lanes_\w+|reduce|slices|philox)\.wgsl")


def step_page(title: str, mode: str, lowered: Lowered, milliseconds: list[float], device: str) -> str:
    """`milliseconds` are those of each op on `device`, or none."""
    return filled("step", step_data(title, mode, lowered, milliseconds, device))


def step_data(title: str, mode: str, lowered: Lowered, milliseconds: list[float], device: str) -> dict[str, Any]:
    plan, ops = lowered.plan, lowered.programs[mode].ops
    return {
        "title": title,
        "mode": mode,
        "device": device,
        "arena": plan.size,
        "persistent": plan.persistent_size,
        "ops": ops_data(ops, milliseconds),
        "slots": slots_data(lowered, mode),
        "kernels": {op.kernel: sources_of(op) for op in ops},
    }


def sources_of(op: Op) -> dict[str, str]:
    """What it computes in words and formulas, and its three sources: its family's C++, its dispatches' WGSL."""
    from tinygpt.kernels.spec import SPEC

    function = SPEC[op.kernel]
    file = Path(inspect.getfile(function))
    found = {"about": inspect.cleandoc(function.__doc__ or ""), "NumPy": inspect.getsource(function)}
    cpp = file.with_suffix(".cpp")
    if cpp.exists():
        found["C++"] = cpp.read_text(encoding="utf-8")
    wgsl = [SOURCES / name for name in wgsl_files(op)]
    if wgsl:
        found["WGSL"] = "\n".join(path.read_text(encoding="utf-8") for path in wgsl)
    return found


def wgsl_files(op: Op) -> list[str]:
    """The files that a GPU's dispatches of it are made of, without those that many kernels share."""
    target = Target(Device())
    found: list[str] = []
    for dispatch in op.declared.dispatch(op, target):
        found += [name for name in dispatch.files if name not in found and not SHARED_TEXT.match(name)]
    return found
