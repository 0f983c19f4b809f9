"""`tinygpt program --gpu`: the same program as a GPU runs it, dispatch by dispatch, and its buffers."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from tinygpt.cli.output import Output, size_of
from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops.gpu import Device, Dispatch
from tinygpt.core.plan.gpu.lowering import GpuLowered

DEFAULT = "the limits that every WebGPU device keeps to"


def lower_for(config: RunConfig, adapter: str | None, without: tuple[str, ...]) -> tuple[str, GpuLowered]:
    """The device in words, and the lowering for it: for an adapter by name, or one that has WebGPU's least limits."""
    if adapter is None:
        return DEFAULT, lowered_for(config, Device(), without)
    from tinygpt.engines.select import resolve_engine

    resolve_engine("webgpu")
    from tinygpt.engines.gpu import Gpu

    gpu = Gpu(adapter)
    return gpu.label(), lowered_for(config, gpu.describe(), without)


def lowered_for(config: RunConfig, device: Device, without: tuple[str, ...]) -> GpuLowered:
    window = config.model.ctx + 1  # texts of the least length
    return GpuLowered(config, device, all_modes(config), window, window, without=without)


def dispatches_of_mode(lowered: GpuLowered, mode: str) -> list[Dispatch]:
    if mode not in lowered.dispatches:
        raise TinyGPTError(f"there is no program '{mode}' here; there are {', '.join(lowered.programs)}")
    return lowered.dispatches[mode]


def gpu_as_data(name: str, mode: str, device: str, lowered: GpuLowered) -> dict[str, Any]:
    plan = lowered.plan
    return {
        "preset": name,
        "mode": mode,
        "device": device,
        "limits": vars(lowered.device),
        "slices": lowered.slices,
        "bytes": plan.bytes(),
        "buffers": [
            {"for": owner, "bytes": 4 * floats} for owner, floats in zip(plan.owners, plan.buffers, strict=True)
        ],
        "dispatches": [dispatch_as_data(mode, dispatch, lowered) for dispatch in dispatches_of_mode(lowered, mode)],
    }


def dispatch_as_data(mode: str, dispatch: Dispatch, lowered: GpuLowered) -> dict[str, Any]:
    def bound(side: list[tuple[str, Any]]) -> dict[str, Any]:
        """By the name a binding has in the kernel: the tensor and its buffer."""
        return {
            name: {"tensor": tensor.name, "buffer": lowered.plan.find(mode, tensor)[0]}
            for name, tensor in side
            if tensor is not None
        }

    return {
        "ops": dispatch.ops,
        "files": dispatch.files,
        "entry": dispatch.entry,
        "grid": list(dispatch.grid),
        "constants": dispatch.constants,
        "reads": bound(dispatch.reads),
        "writes": bound(dispatch.writes),
    }


def show_gpu(output: Output, mode: str, device: str, lowered: GpuLowered) -> None:
    dispatches = dispatches_of_mode(lowered, mode)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("op", justify="right", style="dim")
    table.add_column("kernel", no_wrap=True)
    table.add_column("workgroups", justify="right", no_wrap=True)
    table.add_column("constants")
    for dispatch in dispatches:
        constants = ", ".join(f"{name}={value:g}" for name, value in dispatch.constants.items())
        grid = "×".join(map(str, dispatch.grid)).removesuffix("×1").removesuffix("×1")
        kernel = Text.assemble((dispatch.entry, "bold"), f"\n{dispatch.files[-1]}")
        table.add_row(", ".join(map(str, dispatch.ops)), kernel, grid, constants)
    output.console.print(table)
    ops, kernels = len(lowered.programs[mode].ops), len({dispatch.files[-1] for dispatch in dispatches})
    output.say(f"\n{len(dispatches)} dispatches of {kernels} kernel files, for {ops} ops\n")
    output.facts([*buffers_of(lowered), ("all", f"{size_of(lowered.plan.bytes())} for all programs, allocated once")])
    output.say(f"\nFor {device}.")


def buffers_of(lowered: GpuLowered) -> list[tuple[str, str]]:
    """Each buffer's owner and size."""
    rows = []
    for number, (owner, floats) in enumerate(zip(lowered.plan.owners, lowered.plan.buffers, strict=True)):
        slices = f", in {lowered.slices} slices" if owner.startswith("grad") and lowered.slices > 1 else ""
        rows.append((f"{number:>2}  {owner}", f"{size_of(4 * floats)}{slices}"))
    return rows
