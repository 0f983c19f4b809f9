"""What Chromium's WGSL compiler adds to the kernels of a training step, so that no index can leave its array.

python -m lab.guards small huge:modern

Chromium is told to write down what it makes of each kernel, on any machine: no GPU is needed. See docs/webgpu.md for
how a kernel is written so that there is nothing to guard.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.playbook import device_of
from tinygpt.core.presets import preset
from tinygpt.engines.runner import Runner

PROCESSORS = 128  # of the GPU that kernels are chosen for: a discrete one
TEXT_BYTES = 1 << 20
DUMPING = ["--enable-dawn-features=dump_shaders", "--enable-logging=stderr"]
DUMPED = re.compile(r"Dumped (\w+)")
NO_END = "%uint_4294967295 %uint_4294967295"  # what a guarded loop counts down from
KINDS = ("loops", "registers", "workgroup", "storage")


class Guards(NamedTuple):
    """How many of each a kernel has."""

    loops: int  # whose rounds are counted, since their end was not seen
    registers: int  # indices into arrays of its own that are clamped: such an array may not stay in registers
    workgroup: int  # indices into workgroup memory that are clamped
    storage: int  # indices into buffers that are clamped, where the driver does not see to that


class Block(NamedTuple):
    lines: list[str]
    next: list[str]  # labels of the blocks that may follow


def reachable(function: list[str]) -> list[str]:
    """Its lines without those of branches that are never taken: a kernel's constants decide many."""
    blocks: dict[str, Block] = {}
    first, label, lines = "", "", [""]
    for line in function:
        started = re.match(r"(%\w+) = OpLabel", line)
        if started:
            label, lines = started[1], []
            first = first or label
        lines.append(line)
        if line.startswith("OpBranchConditional"):
            _, condition, yes, no = line.split()[:4]
            blocks[label] = Block(lines, {"%true": [yes], "%false": [no]}.get(condition, [yes, no]))
        elif line.startswith("OpBranch "):
            blocks[label] = Block(lines, [line.split()[1]])
        elif line.startswith("OpSwitch"):
            blocks[label] = Block(lines, re.findall(r"%\w+", line)[1:])
        elif line.startswith(("OpReturn", "OpUnreachable")):
            blocks[label] = Block(lines, [])
    waiting, seen = [first], []
    while waiting:
        label = waiting.pop()
        if label in blocks and label not in seen:
            seen.append(label)
            waiting += blocks[label].next
    return [line for label in seen for line in blocks[label].lines]


def alive(text: str) -> list[str]:
    """The lines that a module's entry point may come to."""
    functions: dict[str, list[str]] = {}
    name = ""
    for line in (line.strip() for line in text.splitlines()):
        started = re.match(r"(%\w+) = OpFunction ", line)
        if started:
            name, functions[started[1]] = started[1], []
        if name:
            functions[name].append(line)
        if line == "OpFunctionEnd":
            name = ""
    entry = re.search(r"OpEntryPoint GLCompute (%\w+)", text)
    assert entry is not None
    waiting, lines, seen = [entry[1]], [], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            lines += reachable(functions[name])
            waiting += [call[1] for line in lines if (call := re.search(r"OpFunctionCall %\w+ (%\w+)", line))]
    return lines


def guards_of(text: str) -> Guards:
    """Of a kernel's SPIR-V as text."""
    lines = alive(text)
    unending = {m[1] for m in re.finditer(rf"(%\w+) = OpConstantComposite %v2uint {NO_END}", text)}
    loops = sum(line.startswith("OpStore") and line.split()[2] in unending for line in lines)
    clamped = {line.split()[0] for line in lines if re.search(r"OpExtInst %uint %\w+ UMin", line)}
    counts: Counter[str] = Counter()
    for line in lines:
        access = re.search(r"OpAccessChain %_ptr_(\w+?)_\S+ (.*)", line)
        if access and clamped & set(access[2].split()):
            counts[access[1]] += 1
    return Guards(loops, counts["Private"] + counts["Function"], counts["Workgroup"], counts["StorageBuffer"])


def pipelines_of(name: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a preset's training step, by its recipe or the classic one, as a discrete GPU would have them."""
    device = device_of(facts)
    device.processors, device.f16 = PROCESSORS, False
    size, _, recipe = name.partition(":")
    lowered = GpuLowered(preset(size, recipe or "classic"), device, ["train"], TEXT_BYTES, TEXT_BYTES)
    return list(lowered.playbook()["pipelines"])


def dumped(log: str) -> list[str]:
    """The texts of kernels in Chromium's log, in their order."""
    parts = DUMPED.split(log)
    return [text for kind, text in zip(parts[1::2], parts[2::2], strict=True) if kind == "SPIRV"]


def compiled(runner: Runner, pipeline: dict[str, Any]) -> str:
    before = len(dumped(runner.log.read_text(errors="replace")))
    opened, _ = runner.ask("open-gpu", playbook={"buffers": [], "pipelines": [pipeline], "programs": {}})
    runner.ask("close", player=opened["player"])
    return dumped(runner.log.read_text(errors="replace"))[before]


def label(pipeline: dict[str, Any]) -> str:
    """Its entry point, and what its tile is."""
    constants = {name: value for name, _, value in pipeline["constants"]}
    if "SPLITS" in constants:
        rows, columns, teams = (constants[name] for name in ("TILE_ROWS", "TILE_COLUMNS", "SPLITS"))
        return f"{pipeline['entry']} {rows}×{columns}" + (f", {teams} teams" if teams > 1 else "")
    return str(pipeline["entry"])


def measure(presets: list[str]) -> dict[str, Guards]:
    """Of every kernel of these presets' steps (`small`, or `small:modern`); of several with one label, the most."""
    runner = Runner("chromium", arguments=DUMPING)
    facts = runner.ask("gpu")[0]["device"]
    found: dict[str, Guards] = {}
    for name in presets:
        for pipeline in pipelines_of(name, facts):
            guards = guards_of(compiled(runner, pipeline))
            before = found.get(label(pipeline), Guards(0, 0, 0, 0))
            found[label(pipeline)] = Guards(*map(max, before, guards))
    runner.close()
    return found


def main(presets: list[str]) -> None:
    table = Table("kernel", *KINDS, box=None)
    for kernel, guards in sorted(measure(presets).items()):
        table.add_row(kernel, *map(str, guards))
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or ["small"])
