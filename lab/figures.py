"""The tables and pictures of docs/performance.md, from the measurements kept in docs/figures.

    python -m lab.figures

A measurement is a file of rows, as `tinygpt bench --json` prints them, with the machine and versions beside them;
`tinygpt bench --all` writes one. A table stands in the text between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset

DOCS = Path(__file__).parents[1] / "docs"
TEXT = DOCS / "performance.md"
FIGURES = DOCS / "figures"
PICTURES = {"speed.png": "cpu", "speed-gpu.png": "gpu"}  # and the measurement that each is of
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)

Row = dict[str, Any]
Cells = list[list[str]]  # headings first
TABLES: dict[str, Callable[[list[Row]], Cells]] = {}


def table(name: str) -> Callable[[Callable[[list[Row]], Cells]], Callable[[list[Row]], Cells]]:
    def named(made: Callable[[list[Row]], Cells]) -> Callable[[list[Row]], Cells]:
        TABLES[name] = made
        return made

    return named


def short(number: float) -> str:
    """Three digits, and as many more as stand before the point."""
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 99.95 else f"{number:.0f}"


def values(rows: Iterable[Row], field: str) -> list[str]:
    """In their order, without those that come again."""
    return list(dict.fromkeys(row[field] for row in rows))


class Times:
    """Rows of steps, by preset and engine; the presets are those that all these engines ran."""

    def __init__(self, rows: list[Row], engines: Sequence[str], field: str = "engine") -> None:
        self.rows = {(row["preset"], row[field]): row for row in rows}
        self.presets = [
            name for name in values(rows, "preset") if all((name, engine) in self.rows for engine in engines)
        ]

    def ms(self, name: str, engine: str) -> float:
        return float(self.rows[name, engine]["ms_per_step"])

    def gflops(self, name: str, engine: str) -> float:
        return float(self.rows[name, engine]["gflops"])

    def ratio(self, name: str, slower: str, faster: str) -> float:
        return self.ms(name, slower) / self.ms(name, faster)


@table("cpu")
def of_the_cpu(rows: list[Row]) -> Cells:
    engines = ("native", "torch")
    times = Times(rows, engines)
    heads = ["preset", "native, ms", "torch, ms", "native, GFLOP/s", "torch, GFLOP/s", "native / torch"]
    return [heads] + [
        [name]
        + [short(times.ms(name, engine)) for engine in engines]
        + [f"{times.gflops(name, engine):.0f}" for engine in engines]
        + [f"{times.ratio(name, 'torch', 'native'):.2f}×"]
        for name in times.presets
    ]


@table("cpu-profile")
def of_kernels_on_the_cpu(rows: list[Row]) -> Cells:
    presets = values(rows, "preset")
    known = {(row["kernel"], row["preset"]): row for row in rows}
    heads = ["kernel", "calls", f"share at {presets[0]}", *[f"at {name}" for name in presets[1:]]]
    cells = [[*heads, f"GFLOP/s at {presets[-1]}"]]
    for kernel in values(rows, "kernel"):
        last = known[kernel, presets[-1]]
        shares = [f"{100 * known[kernel, name]['share']:.0f} %" for name in presets]
        cells.append([code(kernel), optional(last, "calls"), *shares, optional(last, "gflops")])
    return cells


@table("threads")
def of_threads(rows: list[Row]) -> Cells:
    """GFLOP/s by the number of threads, all runs of each; those with a commit are from before."""
    presets, counts = values(rows, "preset"), sorted({row["threads"] for row in rows})

    def runs(name: str, count: int, is_old: bool) -> str:
        own = [row for row in rows if row["preset"] == name and row["threads"] == count]
        return ", ".join(f"{row['gflops']:.0f}" for row in own if ("commit" in row) == is_old)

    heads = ["preset", *[f"{count} thread{'s' * (count > 1)}" for count in counts], f"{counts[-1]}, before"]
    return [heads] + [
        [name, *[runs(name, count, False) for count in counts], runs(name, counts[-1], True)] for name in presets
    ]


def code(kernels: str) -> str:
    """Names of kernels in a sentence are shown as code."""
    return re.sub(r"\w*_\w+|^(attention|linear|layernorm|adamw)\b", r"`\g<0>`", kernels)


def optional(row: Row, field: str, scale: float = 1, digits: int = 0) -> str:
    return f"{row[field] * scale:.{digits}f}" if field in row else ""


@table("memory")
def of_memory(rows: list[Row]) -> Cells:
    presets = values(rows, "preset")
    known = {(row["engine"], row["preset"]): row["peak_bytes"] for row in rows}
    return [["", *presets]] + [
        [engine, *[f"{known[engine, name] / 1e6:.0f}" for name in presets]] for engine in values(rows, "engine")
    ]


@table("browser")
def of_the_browser(rows: list[Row]) -> Cells:
    engines = ("wasm-chromium", "wasm-node", "native", "torch")
    times = Times(rows, engines)
    heads = ["preset", "wasm in Chromium", "wasm in Node", "native", "torch", "Chromium / torch"]
    return [[*heads, "Chromium, GFLOP/s"]] + [
        [name]
        + [short(times.ms(name, engine)) for engine in engines]
        + [f"{times.ratio(name, 'torch', 'wasm-chromium'):.2f}×", f"{times.gflops(name, 'wasm-chromium'):.0f}"]
        for name in times.presets
    ]


@table("page")
def of_the_page(rows: list[Row]) -> Cells:
    heads = [
        "preset",
        "first step",
        "page, tokens/s",
        "engine, tokens/s",
        "page / engine",
        "page writes, B/s",
        "engine writes, B/s",
    ]
    return [[*heads, "Stop, at worst"]] + [
        [
            row["preset"],
            f"{row['first_ms'] / 1000:.2f} s",
            f"{row['page_tokens_per_s']:,.0f}",
            f"{row['engine_tokens_per_s']:,.0f}",
            f"{row['page_tokens_per_s'] / row['engine_tokens_per_s']:.2f}",
            f"{row['page_bytes_per_s']:,.0f}",
            f"{row['engine_bytes_per_s']:,.0f}",
            f"{max(row['stop_ms'].values())} ms",
        ]
        for row in rows
    ]


@table("blocks")
def of_blocks(rows: list[Row]) -> Cells:
    """Before a commit's successor, and now; all runs of each."""
    presets = values(rows, "preset")
    cells = [["", *presets]]
    for engine in values(rows, "engine"):
        for when, is_old in (("before", True), ("now", False)):
            own = [row for row in rows if row["engine"] == engine and ("commit" in row) == is_old]
            runs = [", ".join(short(row["ms_per_step"]) for row in own if row["preset"] == name) for name in presets]
            cells.append([f"{engine}, {when}", *runs])
    return cells


@table("gpu")
def of_the_gpu(rows: list[Row]) -> Cells:
    ours, eager, graph = engines = ("webgpu", "torch:cuda:tf32", "torch:cuda:tf32:compile")
    times = Times(rows, engines)
    heads = ["preset", "webgpu", "PyTorch eager", "PyTorch, one CUDA graph", "eager / webgpu", "webgpu / graph"]
    return [[*heads, "webgpu, TFLOP/s"]] + [
        [name]
        + [short(times.ms(name, engine)) for engine in engines]
        + [short(times.ratio(name, eager, ours)), short(times.ratio(name, ours, graph))]
        + [f"{times.gflops(name, ours) / 1000:.1f}"]
        for name in times.presets
    ]


@table("float32-gpu")
def of_float32_on_the_gpu(rows: list[Row]) -> Cells:
    ours, same, tensor = engines = ("webgpu", "torch:cuda:float32:compile", "torch:cuda:tf32:compile")
    times = Times(rows, engines)
    heads = ["preset", "webgpu, float32", "PyTorch's graph, float32", "its graph, TF32"]
    return [[*heads, "webgpu / float32", "webgpu / TF32"]] + [
        [name]
        + [short(times.ms(name, engine)) for engine in engines]
        + [f"{times.ratio(name, ours, graph):.2f}" for graph in (same, tensor)]
        for name in times.presets
    ]


@table("gpu-profile")
def of_kernels_on_the_gpu(rows: list[Row]) -> Cells:
    return [["kernel", "calls", "ms", "share", "TFLOP/s"]] + [
        [
            code(row["kernel"]),
            optional(row, "calls"),
            short(row["ms"]),
            f"{100 * row['share']:.1f} %",
            optional(row, "gflops", 1e-3, 1),
        ]
        for row in rows
    ]


@table("recipes-gpu")
def of_recipes(rows: list[Row]) -> Cells:
    ms = {(row["preset"], row["recipe"]): row["ms_per_step"] for row in rows}
    cells = [["preset", "classic (AdamW), ms", "modern (Muon, rotary, q/k norm, averages), ms", "modern / classic"]]
    for name in values(rows, "preset"):
        classic = ms.get((name, "classic"))
        ratio = "" if classic is None else f"{ms[name, 'modern'] / classic:.2f}"
        cells.append([name, "" if classic is None else short(classic), short(ms[name, "modern"]), ratio])
    return cells


@table("chromium-gpu")
def of_chromium(rows: list[Row]) -> Cells:
    engines = ("webgpu", "webgpu-chromium")
    times = Times(rows, engines)
    return [["preset", "webgpu (wgpu-py), ms", "webgpu-chromium, ms", "Chromium / wgpu-py"]] + [
        [name, *(short(times.ms(name, engine)) for engine in engines), f"{times.ratio(name, *engines[::-1]):.2f}"]
        for name in times.presets
    ]


@table("guards")
def of_guards(rows: list[Row]) -> Cells:
    heads = ["kernel", "loops", "own arrays", "workgroup memory"]
    return [heads] + [
        ["; ".join(code_of(kernel) for kernel in row["kernels"].split("; "))]
        + [str(row[field]) for field in ("loops", "own", "workgroup")]
        for row in rows
    ]


def code_of(kernel: str) -> str:
    """A kernel's name as code, and what tells its variants apart."""
    name, _, variant = kernel.partition(" ")
    return f"`{name}` {variant}".strip()


@table("torch-gpu")
def of_pytorch(rows: list[Row]) -> Cells:
    modes = ("eager-tf32", "graph-tf32", "graph-bf16")
    times = Times(rows, modes, "mode")
    heads = ["preset", "eager, TF32", "one graph, TF32", "one graph, bf16", "difference of the loss"]
    return [heads] + [
        [name]
        + [short(times.ms(name, mode)) for mode in modes]
        + [f"{times.rows[name, 'graph-tf32']['loss_difference']:.1e}".replace("e-0", "e-")]
        for name in times.presets
    ]


@table("texts")
def of_several_texts(rows: list[Row]) -> Cells:
    presets, counts = values(rows, "preset"), sorted({row["texts"] for row in rows})
    speed = {(row["preset"], row["texts"]): f"{row['bytes_per_s']:,}" for row in rows}
    prompt = {row["preset"]: f"{row['prompt_ms']} ms" for row in rows}
    heads = ["preset", *[f"{count} text{'s' * (count > 1)}" for count in counts], "to read a prompt"]
    return [heads] + [[name, *[speed[name, count] for count in counts], prompt[name]] for name in presets]


def rows_of(name: str) -> list[Row]:
    path = FIGURES / f"{name}.json"
    try:
        rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError) as fault:
        raise TinyGPTError(f"{path} is no measurement ({fault}): write one with `tinygpt bench --all`") from None
    return [row for row in rows if "error" not in row]


def as_markdown(cells: Cells) -> str:
    lines = [cells[0], ["---"] * len(cells[0]), *cells[1:]]
    return "".join(f"|{'|'.join(map(padded, line))}|\n" for line in lines)


def padded(cell: str) -> str:
    return cell if cell == "---" else f" {cell} " if cell else " "


def with_tables(text: str) -> str:
    """The text with every table made anew."""

    def made(place: re.Match[str]) -> str:
        name = place[2]
        if name not in TABLES:
            raise TinyGPTError(f"there is no table '{name}'; there are {', '.join(TABLES)}")
        return place[1] + as_markdown(TABLES[name](rows_of(name))) + place[3]

    return PLACE.sub(made, text)


def digest(name: str) -> str:
    """Of a measurement; a picture says which one it is of."""
    return hashlib.sha256((FIGURES / f"{name}.json").read_bytes()).hexdigest()


def draw(folder: Path) -> None:
    from tinygpt.plots import save_speed_curve

    for picture, name in PICTURES.items():
        rows = [{**row, "tokens_per_s": tokens_per_s(row)} for row in rows_of(name)]
        save_speed_curve(folder / picture, rows, source=digest(name))


def tokens_per_s(row: Row) -> float:
    config = preset(row["preset"])
    return 1000 * config.train.batch * config.model.ctx / float(row["ms_per_step"])


def main() -> None:
    try:
        TEXT.write_text(with_tables(TEXT.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
        draw(DOCS)
    except TinyGPTError as fault:
        raise SystemExit(f"error: {fault}") from None


if __name__ == "__main__":
    main()
