"""`tinygpt program`: the training step, printed op by op, and its memory as a picture."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.commands.program_memory import show_memory
from tinygpt.cli.options import option
from tinygpt.cli.output import Output, size_of
from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import LOOKING, all_modes, step_modes
from tinygpt.core.ops.op import Op, Program, Tensor, bits_float
from tinygpt.core.passes import FUSE, OPTIONAL, optional_passes
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.presets import DEFAULT_PRESET, DEFAULT_RECIPE, preset
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import faults_of

EXAMPLES = """Examples:

\b
  tinygpt program small                          every op of a step, with its cost
  tinygpt program small --memory                 where each tensor is, and whose place it takes
  tinygpt program huge --plot memory.png         tensors over time
  tinygpt program small --html step.html --time  a page: click an op, see its formula, sources and time
  tinygpt program small --mode decode --json     one program as data
  tinygpt program small --passes none            as the model's text has it: nothing fused
  tinygpt program small --gpu                    what runs on a GPU, and its buffers
"""
UNBOUNDED = 10_000  # columns
SWITCHES = ("accumulate", "tied", "inverse", "alibi")  # dims that change what a kernel does, where they are not 0
COMMIT = ("commit", "up to here a run can be abandoned", "from here on what is written is kept")


def program(
    name: Annotated[
        str, typer.Argument(metavar="PRESET", help="whose step", autocompletion=options.complete_preset)
    ] = DEFAULT_PRESET,
    mode: Annotated[
        str | None,
        option(
            "--mode",
            help="train, eval, prefill, decode, inspect or gradients; gradient, accumulate or update where a step has "
            "several batches",
            default="a step's first",
            panel="Model",
        ),
    ] = None,
    recipe: options.Recipe = None,
    batch: Annotated[int | None, option("--batch", help="sequences in a batch", panel="Model")] = None,
    ctx: Annotated[int | None, option("--ctx", help="context length", panel="Model")] = None,
    grad_accum: Annotated[int | None, option("--grad-accum", help="batches per step", panel="Model")] = None,
    passes: Annotated[
        str, option("--passes", help="all, or none: the plain program", default="all", panel=options.MACHINE)
    ] = "all",
    without: options.Without = None,
    gpu: Annotated[bool, option("--gpu", help="lowered for a GPU: dispatches and buffers", panel="GPU")] = False,
    adapter: Annotated[
        str | None,
        option(
            "--adapter", help="for this one: part of its name, or auto", default="WebGPU's least limits", panel="GPU"
        ),
    ] = None,
    memory: Annotated[
        bool, option("--memory", help="where each tensor is, when, and whose place it takes", panel=options.OUTPUT)
    ] = False,
    plot: Annotated[
        Path | None, option("--plot", help="draw the memory map to this file (.png, .svg, .pdf)", panel=options.OUTPUT)
    ] = None,
    html: Annotated[
        Path | None, option("--html", help="the step as one page to click through, in this file", panel=options.OUTPUT)
    ] = None,
    time: Annotated[
        bool, option("--time", help="with --html: how long each op takes here, natively", panel=options.OUTPUT)
    ] = False,
    json: options.Json = False,
) -> None:
    """The step as data: every op with its shapes, bytes and FLOPs, and the arena's map."""
    changes = options.given({"batch": batch, "ctx": ctx, "grad_accum": grad_accum})
    config = preset(name, recipe or DEFAULT_RECIPE).replace(**changes)
    mode = mode or step_modes(config)[0]
    if passes not in ("all", "none"):
        some = ",".join(OPTIONAL)
        raise TinyGPTError(f"--passes is all or none, not '{passes}'; to leave out some, say --without {some}")
    left_out = optional_passes(FUSE if passes == "none" else without or "")
    if gpu or adapter is not None:
        if plot is not None or memory or html is not None:
            raise TinyGPTError("--plot, --html and --memory show the CPU's arena and do not go with --gpu")
        show_for_gpu(Output(json=json), name, mode, config, adapter, left_out)
        return
    window = config.model.ctx + 1  # texts of the least length
    looking = [mode] if mode in LOOKING else []
    lowered = Lowered(config, all_modes(config) + looking, window, window, without=left_out)
    if mode not in lowered.programs:
        raise TinyGPTError(f"there is no program '{mode}' here; there are {', '.join(lowered.programs)}")
    output = Output(json=json)
    if plot is not None:
        from tinygpt.plots import save_memory_map

        save_memory_map(plot, f"{name}: memory of the {mode} program", lowered.plan, mode)
    if html is not None:
        write_page(
            html,
            f"A training step of {name}" if mode == "train" else f"{name}: {mode}",
            mode,
            lowered,
            timed(config, mode, left_out) if time else None,
        )
    if json:
        typer.echo(jsonlib.dumps(as_data(name, mode, lowered)))
        return
    if html is not None:
        output.say(f"The step is in {html}.")
        return
    if memory:
        show_memory(output, mode, lowered)
    else:
        show_ops(output, mode, lowered)
    show_arena(output, mode, lowered)
    if plot is not None:
        output.say(f"\nThe memory map is in {plot}.")


class Timed(NamedTuple):
    milliseconds: list[float]  # of each op
    device: str


def timed(config: RunConfig, mode: str, without: tuple[str, ...]) -> Timed:
    """The median of each op's times, natively."""
    from statistics import median

    from tinygpt.bench.profile import REPEATS, WARM_UP
    from tinygpt.bench.workload import Run
    from tinygpt.engines.native import native_engine

    engine = native_engine(config)
    engine.memory.without = without
    Run(config, engine).advance(WARM_UP)
    passes = [run_now(engine.memory.clock(mode)) for _ in range(REPEATS)]
    device = engine.describe()
    run_now(engine.close())
    return Timed([1000 * median(row[1] for row in rows) for rows in zip(*passes, strict=True)], device)


def write_page(path: Path, title: str, mode: str, lowered: Lowered, times: Timed | None) -> None:
    from tinygpt.inside.step import step_page

    page = step_page(title, mode, lowered, times.milliseconds if times else [], times.device if times else "")
    with faults_of(path, "write"), replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def show_for_gpu(
    output: Output, name: str, mode: str, config: RunConfig, adapter: str | None, without: tuple[str, ...]
) -> None:
    from tinygpt.cli.commands.gpu_program import gpu_as_data, lower_for, show_gpu

    device, lowered = lower_for(config, adapter, without)
    if output.json:
        typer.echo(jsonlib.dumps(gpu_as_data(name, mode, device, lowered)))
    else:
        show_gpu(output, mode, device, lowered)


def as_data(name: str, mode: str, lowered: Lowered) -> dict[str, Any]:
    plan = lowered.plan
    slots = plan.persistent + plan.temporary[mode]
    return {
        "preset": name,
        "mode": mode,
        "arena_bytes": plan.bytes(),
        "persistent_bytes": 4 * plan.persistent_size,
        "ops": [op_as_data(op) for op in lowered.programs[mode].ops],
        "tensors": [
            {
                "name": slot.tensor.name,
                "shape": list(slot.tensor.shape),
                "kind": slot.tensor.kind,
                "start": slot.start,
                "size": slot.size,
                "first": slot.first,
                "last": slot.last,
            }
            for slot in slots
        ],
        "words": lowered.words[mode],
    }


def op_as_data(op: Op) -> dict[str, Any]:
    signature = op.declared
    names = signature.tensors
    return {
        "kernel": op.kernel,
        "tensors": {name: t.name for name, t in zip(names, op.tensors, strict=True) if t is not None},
        "dims": dict(zip(signature.dims, op.dims, strict=True)),
        "scalars": dict(zip(signature.scalars, [bits_float(bits) for bits in op.scalars], strict=True)),
        "flops": op.flops(),
        "bytes": op.bytes_touched(),
    }


def show_ops(output: Output, mode: str, lowered: Lowered) -> None:
    """A table as wide as its names need; where that is too wide for the terminal, one tensor below the other."""
    shown = lowered.programs[mode]
    console = output.console
    table = ops_table(shown, ("kernel", "reads", "writes"), side_by_side, COMMIT)
    if console.measure(table, options=console.options.update(max_width=UNBOUNDED)).maximum > console.width:
        one_below_the_other = Text("\n  ".join(COMMIT))
        table = ops_table(shown, ("kernel, what it reads, → what it writes",), stacked, (one_below_the_other,))
    console.print(table)


def ops_table(
    program: Program,
    headings: tuple[str, ...],
    cells: Callable[[Op], tuple[str | Text, ...]],
    commit: tuple[str | Text, ...],
) -> Table:
    """A row per op, and one with `commit` where the program commits."""
    ops = program.ops
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", style="dim")
    for heading in headings:
        table.add_column(heading, style="bold" if heading == "kernel" else "", overflow="fold")
    for heading in ("bytes", "MFLOP"):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, op in enumerate(ops):
        if 0 < index == program.committed:
            table.add_row("", *commit, style="dim")
        cost = f"{op.flops() / 1e6:,.1f}" if op.flops() else ""
        table.add_row(str(index), *cells(op), size_of(op.bytes_touched()), cost)
    table.add_section()
    sums = size_of(sum(op.bytes_touched() for op in ops)), f"{sum(op.flops() for op in ops) / 1e6:,.1f}"
    table.add_row("", f"{len(ops)} ops", *[""] * (len(headings) - 1), *sums)
    return table


def reads(op: Op) -> list[Tensor | None]:
    return op.tensors[: len(op.declared.inputs)]


def writes(op: Op) -> list[Tensor | None]:
    return op.tensors[len(op.declared.inputs) :]


def shapes(tensors: list[Tensor | None]) -> list[str]:
    return [f"{t.name} {'×'.join(str(d) for d in t.shape)}" for t in tensors if t is not None]


def switches(op: Op) -> list[str]:
    dims = dict(zip(op.declared.dims, op.dims, strict=True))
    return [f"{name}={dims[name]}" for name in SWITCHES if dims.get(name)]


def side_by_side(op: Op) -> tuple[str, ...]:
    columns = [op.kernel, *switches(op)], shapes(reads(op)), shapes(writes(op))
    return tuple("\n".join(lines) for lines in columns)


def stacked(op: Op) -> tuple[Text]:
    lines = [f"  {line}" for line in switches(op) + shapes(reads(op))] + [f"→ {line}" for line in shapes(writes(op))]
    return (Text.assemble((op.kernel, "bold"), "\n", "\n".join(lines)),)


def label(tensor: Tensor) -> str:
    """Of the memory that tensors of its kind take together."""
    if tensor.kind == "slot":
        return f"optimizer's {tensor.name}"
    return "texts" if tensor.kind == "corpus" else f"{tensor.kind}s"


def show_arena(output: Output, mode: str, lowered: Lowered) -> None:
    plan = lowered.plan
    temporary = plan.temporary[mode]
    kinds: dict[str, int] = {}
    for slot in plan.persistent:
        kind = label(slot.tensor)
        kinds[kind] = kinds.get(kind, 0) + 4 * slot.size
    end = max((slot.start + slot.size for slot in temporary), default=plan.persistent_size)
    asked = sum(slot.size for slot in temporary)
    output.say()
    output.facts(
        [
            *((kind, size_of(size)) for kind, size in kinds.items()),
            ("activations", f"{size_of(4 * (end - plan.persistent_size))}, shared by {size_of(4 * asked)} of tensors"),
            ("arena", f"{size_of(plan.bytes())} for all programs, allocated once"),
        ]
    )
