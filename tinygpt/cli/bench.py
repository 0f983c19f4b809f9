"""`tinygpt bench` and `tinygpt parity`: engines side by side."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tinygpt.cli import options
from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.config import DEFAULT_PRESET, preset
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice, make_engine, resolve_engine

BENCH_EXAMPLES = """Examples:

\b
  tinygpt bench                                  native against torch, small to huge
  tinygpt bench --presets small --profile        where the time of a step goes
  tinygpt bench --memory                         peak memory of a training process
  tinygpt bench --engines wasm-chromium,wasm-node,native,torch --presets small
  tinygpt bench --plot curve.png --json
"""
PARITY_EXAMPLES = """Examples:

\b
  tinygpt parity --engines native,torch --preset small --steps 50
"""
WARM_UP = 3  # steps before a profile


def listed(text: str, what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise TinyGPTError(f"name at least one {what}")
    return names


def bench(
    engines: Annotated[str, typer.Option(help="which, comma-separated")] = "native,torch",
    presets: Annotated[str, typer.Option(help="at which sizes, comma-separated")] = "small,medium,large,xl,huge",
    seconds: Annotated[float, typer.Option(help="time for each engine and preset")] = 5.0,
    batch: Annotated[int | None, option("--batch", help="another batch than the preset's", panel="Model")] = None,
    device: options.Device = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    threads: options.Threads = None,
    wasm_build: options.WasmBuild = None,
    profile: Annotated[bool, typer.Option("--profile", help="the time of each op instead (native)")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="peak resident memory instead")] = False,
    plot: Annotated[Path | None, option("--plot", help="draw the curve to this file", panel=options.OUTPUT)] = None,
    json: options.Json = False,
) -> None:
    """Time real training steps: forward, backward, clip and AdamW; medians, engines taking turns."""
    from tinygpt.bench.speed import bench_preset

    output = Output(json=json)
    changes = options.engine_changes(None, device, precision, compile, threads, wasm_build)
    names = [resolve_engine(name) for name in listed(engines, "engine")]
    choices = [EngineChoice()._replace(name=name, **changes) for name in names]
    sizes = listed(presets, "preset")
    configs = {name: preset(name).replace(**options.given({"batch": batch})) for name in sizes}
    if profile:
        for name, config in configs.items():
            show_profile(output, name, config, choices[0])
        return
    if memory:
        show_memory(output, sizes, choices)
        return
    rows = []
    for name, config in configs.items():
        with output.console.status(f"{name}: {', '.join(names)}"):
            for row in bench_preset(name, config, choices, seconds):
                rows.append(row)
                if json:
                    typer.echo(jsonlib.dumps(row))
    show_speed(output, rows, names)
    if plot is not None:
        from tinygpt.plots import save_speed_curve

        save_speed_curve(plot, rows)
        output.say(f"\nThe curve is in {plot}.")


def show_speed(output: Output, rows: list[dict[str, Any]], names: list[str]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("preset")
    table.add_column("engine")
    for heading in ("ms/step", "tokens/s", "GFLOP/s", "threads", "loss", f"vs {names[-1]}"):
        table.add_column(heading, justify="right")
    for row in rows:
        peer = next(r for r in rows if r["preset"] == row["preset"] and r["engine"] == names[-1])
        ratio = f"{row['tokens_per_s'] / peer['tokens_per_s']:.2f}×" if row is not peer else ""
        figures = (f"{row['ms_per_step']:,.2f}", f"{row['tokens_per_s']:,.0f}", f"{row['gflops']:,.1f}")
        table.add_row(row["preset"], row["engine"], *figures, str(row["threads"]), f"{row['loss']:.4f}", ratio)
    output.console.print(table)
    for device in {row["engine"]: row["device"] for row in rows}.values():
        output.say(f"\n{device}")


def show_profile(output: Output, name: str, config: Any, choice: EngineChoice) -> None:
    from tinygpt.bench.profile import profile_step

    rows = profile_step(config, choice, WARM_UP)
    if output.json:
        for row in rows:
            typer.echo(jsonlib.dumps({"preset": name, "engine": choice.name, **row}))
        return
    table = Table(box=None, pad_edge=False, header_style="dim", title=f"{name}, {choice.name}", title_justify="left")
    table.add_column("kernel")
    for heading in ("calls", "ms", "share", "GFLOP/s", "GB/s"):
        table.add_column(heading, justify="right")
    total = sum(row["ms"] for row in rows)
    for row in rows:
        rate = f"{row['gflops']:,.0f}" if row["gflops"] else ""
        share = f"{row['ms'] / total:.1%}"
        table.add_row(row["kernel"], str(row["calls"]), f"{row['ms']:.2f}", share, rate, f"{row['gbytes_per_s']:,.1f}")
    table.add_section()
    table.add_row("all", "", f"{total:.2f}", "", "", "")
    output.console.print(table)


def show_memory(output: Output, sizes: list[str], choices: list[EngineChoice]) -> None:
    from tinygpt.bench.memory import peak_memory

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("preset")
    for choice in choices:
        table.add_column(f"{choice.name}, MB", justify="right")
    for size in sizes:
        peaks = []
        for choice in choices:
            with output.console.status(f"{size}: {choice.name}"):
                peaks.append(peak_memory(size, choice))
            if output.json:
                typer.echo(jsonlib.dumps({"preset": size, "engine": choice.name, "peak_bytes": peaks[-1]}))
        table.add_row(size, *(f"{peak / 1e6:,.0f}" for peak in peaks))
    output.console.print(table)


def parity(
    engines: Annotated[str, typer.Option(help="the two to compare, comma-separated")] = "native,torch",
    name: Annotated[
        str, typer.Option("--preset", help="at which size", autocompletion=options.complete_preset)
    ] = DEFAULT_PRESET,
    steps: Annotated[int, typer.Option(min=1, help="training steps")] = 50,
    limit: Annotated[float, typer.Option(help="drift of the loss, in percent, that fails")] = 0.1,
    threads: options.Threads = None,
    wasm_build: options.WasmBuild = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Train two engines from the same seed and compare them, step by step."""
    from tinygpt.bench.parity import parity as compare

    names = [resolve_engine(engine) for engine in listed(engines, "engine")]
    if len(names) != 2:
        raise TinyGPTError(f"parity compares two engines, not {len(names)}")
    config = preset(name)
    changes = options.engine_changes(None, device, None, None, threads, wasm_build)
    first, second = (make_engine(config, EngineChoice()._replace(name=engine, **changes)) for engine in names)
    result = compare(config, first, second, steps)
    passed = 100 * result.drift < limit
    output = Output(json=json)
    if json:
        row = {"preset": name, "engines": names, "limit": limit / 100, "passed": passed, **result.as_dict()}
        typer.echo(jsonlib.dumps(row))
    else:
        show_drift(output, names, result)
        verdict = "below" if passed else "NOT below"
        output.say(f"\nlargest drift of the loss {100 * result.drift:.5f} %, {verdict} the limit of {limit:g} %")
        output.say(f"largest difference of a weight {result.weight_difference:.3g}, in {result.weight_name}")
    if not passed:
        raise typer.Exit(1)


def show_drift(output: Output, names: list[str], result: Any) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("step", *names, "drift, %"):
        table.add_column(heading, justify="right")
    count = len(result.drifts)
    for i in sorted({*range(0, count, max(1, count // 10)), count - 1}):
        a, b = result.losses[i]
        table.add_row(str(i + 1), f"{a:.6f}", f"{b:.6f}", f"{100 * result.drifts[i]:.6f}")
    output.console.print(table)
