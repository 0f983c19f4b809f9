"""`tinygpt bench` and `tinygpt parity`: engines side by side."""

from __future__ import annotations

import json as jsonlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tinygpt.cli import options
from tinygpt.cli.engine_specs import Listed, listed, listed_engines, settled
from tinygpt.cli.options import option
from tinygpt.cli.output import Output
from tinygpt.core.capsule.compare import DRIFT_LIMIT
from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.passes import DISPATCHES, FUSE, OPTIONAL
from tinygpt.core.presets import DEFAULT_PRESET, PRESETS, preset
from tinygpt.disk.files import faults_of
from tinygpt.engines.select import make_engine

if TYPE_CHECKING:
    from tinygpt.bench.profile import Profile

ENGINES, PROFILE_ENGINE = "native,torch", "native"
SIZES = "small,medium,large,xl,huge"
ALL_FILE = Path("bench.json")
PLAIN = ", plain"  # after an engine's name: without any pass that can be left out

BENCH_EXAMPLES = """Examples:

\b
  tinygpt bench                              native against torch
  tinygpt bench --presets small --profile    where the time of a step goes
  tinygpt bench --memory                     of a process that trains
  tinygpt bench --recipe modern              with Muon, as `train` does
  tinygpt bench --engines webgpu,torch:cuda:tf32,torch:cuda:tf32:compile
  tinygpt bench --engines webgpu,webgpu:f16 --presets large --profile
  tinygpt bench --plot curve.png --json
  tinygpt bench --all --out curve.json       every engine and preset, the machine and versions too

Options of one engine follow its name: a precision, compile, threads or a device,
as in native:2 or webgpu:llvmpipe. They win over the flags, which are for all.
"""
PARITY_EXAMPLES = """Examples:

\b
  tinygpt parity --engines native,torch --preset small --steps 50
  tinygpt parity --engines webgpu,torch:cuda:float32
"""


def bench(
    engines: Annotated[
        str | None,
        typer.Option(
            help=f"which, comma-separated [dim]\\[default: {ENGINES}; {PROFILE_ENGINE} for --profile][/dim]",
            show_default=False,
        ),
    ] = None,
    presets: Annotated[
        str | None,
        typer.Option(help=f"at which sizes, comma-separated [dim]\\[default: {SIZES}][/dim]", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(help="time for each engine and preset")] = 5.0,
    recipe: Annotated[
        str,
        option("--recipe", help="modern (Muon) or classic (AdamW)", default="classic", panel="Model"),
    ] = "classic",
    batch: Annotated[int | None, option("--batch", help="another batch than the preset's", panel="Model")] = None,
    device: options.Device = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    threads: options.Threads = None,
    wasm_build: options.WasmBuild = None,
    without: options.Without = None,
    passes: Annotated[
        bool, typer.Option("--passes", help="what each pass is worth: from the plain program up, engine by engine")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="the time of each kernel instead (native, webgpu, webgpu-chromium)")
    ] = False,
    memory: Annotated[bool, typer.Option("--memory", help="memory instead: resident, and of the GPU")] = False,
    all: Annotated[
        bool, typer.Option("--all", help="every engine and preset that runs here, written to one file")
    ] = False,
    out: Annotated[
        Path | None,
        option("--out", help=f"the file of --all [dim]\\[default: {ALL_FILE}][/dim]", panel=options.OUTPUT),
    ] = None,
    plot: Annotated[Path | None, option("--plot", help="draw the curve to this file", panel=options.OUTPUT)] = None,
    json: options.Json = False,
) -> None:
    """Time real training steps: forward, backward, clip and update; medians, engines taking turns."""
    from tinygpt.bench.speed import bench_preset

    if not 0 < seconds < math.inf:
        raise TinyGPTError(f"--seconds must be a time above 0, not {seconds:g}")
    if plot is not None:
        from tinygpt.plots import require_picture, save_speed_curve

        require_picture(plot)
    if all and (profile or memory):
        raise TinyGPTError("--all times steps: leave out --profile and --memory")
    if out is not None and not all:
        raise TinyGPTError("--out names the file of --all: say --all, too")
    output = Output(json=json)
    changes = options.engine_changes(None, device, precision, compile, threads, wasm_build, without)
    if passes and (without is not None or profile or memory or all):
        raise TinyGPTError("--passes times steps: leave out --without, --profile, --memory and --all")
    if all and engines is None:
        from tinygpt.bench.record import every_engine

        engines = ",".join(every_engine())
    chosen = listed_engines(engines or (PROFILE_ENGINE if profile or passes else ENGINES), changes)
    if passes:
        chosen = pass_by_pass(chosen)
    labels = [label for label, _ in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise TinyGPTError(f"'{label}' is listed twice; a row is told from another by its name and options")
    sizes = listed(presets or (",".join(row.name for row in PRESETS) if all else SIZES), "preset")
    configs = {name: preset(name, recipe).replace(**options.given({"batch": batch})) for name in sizes}
    if profile:
        show_profiles(output, configs, chosen)
        return
    if memory:
        show_memory(output, configs, chosen)
        return
    if all:
        rows = record_all(output, configs, chosen, seconds, out or ALL_FILE)
        show_speed(output, [row for row in rows if "error" not in row], labels)
        return
    rows = []
    for name, config in configs.items():
        engines_here = settled(chosen, config, output)
        with output.console.status(Text(f"{name}: {', '.join(labels)}")):
            for row in bench_preset(name, config, engines_here, seconds):
                rows.append(row)
                if json:
                    typer.echo(jsonlib.dumps(row))
    show_speed(output, rows, labels)
    if plot is not None:
        save_speed_curve(plot, rows)
        output.say(f"\nThe curve is in {plot}.")


def pass_by_pass(engines: list[Listed]) -> list[Listed]:
    """Each engine with the plain program, then with one pass more at a time."""
    found = []
    for label, choice in engines:
        found.append(Listed(label + PLAIN, choice._replace(without=FUSE)))
        for index, name in enumerate(OPTIONAL):
            if name != DISPATCHES or choice.name.startswith("webgpu"):
                found.append(Listed(f"{label}, + {name}", choice._replace(without=",".join(OPTIONAL[index + 1 :]))))
    return found


def record_all(
    output: Output, configs: dict[str, RunConfig], chosen: list[Listed], seconds: float, path: Path
) -> list[dict[str, Any]]:
    """Kept row by row: what was measured before an interrupt is in the file."""
    from tinygpt.bench.record import about, as_text, everything
    from tinygpt.disk.atomic import replacing

    facts = about(["tinygpt", *sys.argv[1:]])
    rows = []
    with faults_of(path, "write"):
        for row in everything(configs, lambda config: settled(chosen, config, output), seconds):
            rows.append(row)
            if output.json:
                typer.echo(jsonlib.dumps(row))
            with replacing(path) as partial:
                partial.write_text(as_text(facts, rows), encoding="utf-8")
    output.say(f"{len(rows)} rows are in {path}.\n")
    return rows


def show_speed(output: Output, rows: list[dict[str, Any]], labels: list[str]) -> None:
    """Beside the last of them; with passes, each beside its engine's plain program."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("preset")
    table.add_column("engine", no_wrap=True)
    for heading in ("ms/step", "tokens/s", "GFLOP/s", "loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    by_pass = labels[0].endswith(PLAIN)
    table.add_column("vs plain" if by_pass else f"vs {labels[-1]}", justify="right", overflow="fold")
    for row in rows:
        beside = row["engine"].split(",")[0] + PLAIN if by_pass else labels[-1]
        peer = next((r for r in rows if r["preset"] == row["preset"] and r["engine"] == beside), row)
        ratio = f"{row['tokens_per_s'] / peer['tokens_per_s']:.2f}×" if row is not peer else ""
        figures = (f"{row['ms_per_step']:,.2f}", f"{row['tokens_per_s']:,.0f}", f"{row['gflops']:,.1f}")
        engine = row["engine"] + " (software)" * row["software"]
        table.add_row(row["preset"], engine, *figures, f"{row['loss']:.4f}", ratio)
    output.console.print(table)
    output.say()
    output.facts(list({row["engine"]: row["device"] for row in rows}.items()))


def show_profiles(output: Output, configs: dict[str, RunConfig], chosen: list[Listed]) -> None:
    from tinygpt.bench.profile import PROFILED, profile_step

    for name, config in configs.items():
        for label, choice in settled(chosen, config, output):
            if choice.name not in PROFILED:
                raise TinyGPTError(f"the {choice.name} engine has no profile of its ops; use {', '.join(PROFILED)}")
            profile = profile_step(config, choice)
            if output.json:
                for row in profile.rows:
                    facts = {"preset": name, "engine": label, "device": profile.device}
                    typer.echo(jsonlib.dumps({**facts, **row}))
            else:
                show_profile(output, f"{name}, {label}", profile)


def show_profile(output: Output, title: str, profile: Profile) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim", title=title, title_justify="left")
    table.add_column("kernel")
    for heading in ("calls", "ms", "share", "GFLOP/s", "GB/s"):
        table.add_column(heading, justify="right")
    total = sum(row["ms"] for row in profile.rows)
    for row in profile.rows:
        rate = f"{row['gflops']:,.0f}" if row["gflops"] else ""
        share = f"{row['ms'] / total:.1%}"
        table.add_row(row["kernel"], str(row["calls"]), f"{row['ms']:.3f}", share, rate, f"{row['gbytes_per_s']:,.1f}")
    table.add_section()
    table.add_row("all", "", f"{total:.3f}", "", "", "")
    output.console.print(table)
    output.say(f"\n{profile.device}\n{profile.meaning}\n")


def show_memory(output: Output, configs: dict[str, RunConfig], chosen: list[Listed]) -> None:
    from tinygpt.bench.memory import MEASURED, peak_memory

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("preset", "engine"):
        table.add_column(heading)
    for heading in ("resident, MB", "GPU, MB"):
        table.add_column(heading, justify="right")
    devices = {}
    for size, config in configs.items():
        for label, choice in settled(chosen, config, output):
            if choice.name not in MEASURED:
                raise TinyGPTError(
                    f"the {choice.name} engine computes in another process, whose memory is not measured; "
                    f"use {', '.join(MEASURED)}"
                )
            with output.console.status(Text(f"{size}: {label}")):
                memory = peak_memory(size, config, choice)
            devices[label] = memory.device
            if output.json:
                typer.echo(jsonlib.dumps({"preset": size, "engine": label, **memory._asdict()}))
            gpu = "" if memory.gpu_bytes is None else f"{memory.gpu_bytes / 1e6:,.1f}"
            table.add_row(size, label, f"{memory.peak_bytes / 1e6:,.0f}", gpu)
    output.console.print(table)
    output.say()
    output.facts(list(devices.items()))


def parity(
    engines: Annotated[str, typer.Option(help="the two to compare, comma-separated")] = "native,torch",
    name: Annotated[
        str, typer.Option("--preset", help="at which size", autocompletion=options.complete_preset)
    ] = DEFAULT_PRESET,
    steps: Annotated[int, typer.Option(min=1, help="training steps")] = 50,
    limit: Annotated[float, typer.Option(help="drift of the loss, in percent, that fails")] = 100 * DRIFT_LIMIT,
    threads: options.Threads = None,
    wasm_build: options.WasmBuild = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Train two engines from the same seed and compare them, step by step."""
    from tinygpt.bench.parity import parity as compare

    changes = options.engine_changes(None, device, None, None, threads, wasm_build)
    chosen = listed_engines(engines, changes)
    if len(chosen) != 2:
        raise TinyGPTError(f"parity compares two engines, not {len(chosen)}")
    config = preset(name)
    labels = [label for label, _ in chosen]
    output = Output(json=json)
    first, second = (make_engine(config, choice) for _, choice in settled(chosen, config, output))
    devices = [first.describe(), second.describe()]
    result = compare(config, first, second, steps)
    passed = 100 * result.drift < limit
    if json:
        facts = {"preset": name, "engines": labels, "devices": devices, "limit": limit / 100, "passed": passed}
        typer.echo(jsonlib.dumps({**facts, **result.as_dict()}))
    else:
        show_drift(output, labels, result)
        output.say()
        output.facts(list(zip(labels, devices, strict=True)))
        verdict = "below" if passed else "NOT below"
        output.say(f"\nlargest drift of the loss {100 * result.drift:.5f} %, {verdict} the limit of {limit:g} %")
        output.say(f"largest difference of a weight {result.weight_difference:.3g}, in {result.weight_name}")
    if not passed:
        raise typer.Exit(1)


def show_drift(output: Output, labels: list[str], result: Any) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("step", *labels, "drift, %"):
        table.add_column(heading, justify="right")
    count = len(result.drifts)
    for i in sorted({*range(0, count, max(1, count // 10)), count - 1}):
        a, b = result.losses[i]
        table.add_row(str(i + 1), f"{a:.6f}", f"{b:.6f}", f"{100 * result.drifts[i]:.6f}")
    output.console.print(table)
