"""Options that several commands share. Their defaults and helps are core's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygpt.core.config import OPTIONS, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.passes import optional_passes
from tinygpt.core.presets import (
    DEFAULT_CORPUS,
    DEFAULT_PRESET,
    DEFAULT_RECIPE,
    RECIPES,
    preset_names,
    recipe_names,
    tuned,
)
from tinygpt.core.settings import Field, Settings
from tinygpt.engines.select import ENGINE_NAMES, EngineChoice

Stated = dict[str, dict[str, Any]]  # settings that were given as flags, by section and name
KINDS: dict[str, type] = {"int": int, "float": float, "text": str}
PANELS = {"model": "Model", "train": "Training", "sample": "Sampling", "lora": "Adapters"}
OPTIMIZERS = next(field.choices for field in TrainConfig.FIELDS if field.name == "optimizer")
UNBOUNDED = 1000  # a largest value from here on is not worth telling


def with_settings(*sections: type[Settings], **defaults: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of commands: an option for every setting of core's `sections` takes the place of the parameter
    `stated`, and the command is given those that were used. `defaults` names those that do not come from core."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**values: Any) -> None:
            stated = {
                section.SECTION: given({field.name: values.pop(field.name) for field in section.FIELDS})
                for section in sections
            }
            command(stated=stated, **values)

        written = inspect.signature(command, eval_str=True)
        parameters = list(written.parameters.values())
        place = list(written.parameters).index("stated")
        parameters[place : place + 1] = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None,
                annotation=Annotated[KINDS[field.kind] | None, setting(section, field, defaults.get(field.name, ""))],
            )
            for section in sections
            for field in section.FIELDS
        ]
        called.__signature__ = written.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    return decorated


def setting(section: type[Settings], field: Field, default: str) -> Any:
    """The option for one of core's settings. Not given is None: then the file, the preset or core decides."""
    more: dict[str, Any] = {}
    if field.choices:
        more = {"metavar": "|".join(field.choices), "autocompletion": completion(field.choices)}
    return option(
        f"--{field.name.replace('_', '-')}",
        help=field.help,
        default=(default or shown(field.default) or "none") + bounds(field),
        panel=panel(section, field),
        **more,
    )


def option(*flags: str, help: str, panel: str, default: str = "", **more: Any) -> Any:
    """An option whose default is stated in words: to typer it is None, which means `not given`."""
    if default:
        help += f" [dim]\\[default: {default}][/dim]"
    return typer.Option(*flags, help=help, show_default=False, rich_help_panel=panel, **more)


def panel(section: type[Settings], field: Field) -> str:
    if section.SECTION == "model" and field.name in OPTIONS:
        return "Architecture"
    whose = field.help.partition(":")[0].lower().split()  # "SGD and Muon: …"
    return "Optimizers" if set(whose) & set(OPTIMIZERS) else PANELS[section.SECTION]


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def bounds(field: Field) -> str:
    told = field.kind != "text" and field.high < UNBOUNDED
    return f"; {shown(field.low)} to {shown(field.high)}" if told else ""


def completion(names: Iterable[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def complete_corpus(incomplete: str) -> list[str]:
    from tinygpt.data import list_corpora

    return [info.name for info in list_corpora() if info.name.startswith(incomplete)]


# What settings have that the preset decides, of the default one.
OF_PRESET = {
    name: f"{shown(value) or 'none'} for {DEFAULT_PRESET}"
    for name, value in tuned(DEFAULT_PRESET, DEFAULT_RECIPE).items()
}
MACHINE, TEXT, OUTPUT = "Machine", "Text", "Output"
CHOICE = EngineChoice()
complete_preset = completion(preset_names())

Preset = Annotated[
    str | None,
    option(
        "--preset",
        help=f"model and run of this size: {', '.join(preset_names())}",
        default=DEFAULT_PRESET,
        panel="Model",
        autocompletion=complete_preset,
    ),
]
Recipe = Annotated[
    str | None,
    option(
        "--recipe",
        help="how it is made and trained. " + ". ".join(f"{recipe.name}: {recipe.help}" for recipe in RECIPES),
        default=DEFAULT_RECIPE,
        panel="Model",
        metavar="|".join(recipe_names()),
        autocompletion=completion(recipe_names()),
    ),
]
Data = Annotated[
    str | None,
    option(
        "--data",
        help="corpus by name (see `tinygpt data list`), or hf:owner/name",
        default=DEFAULT_CORPUS,
        panel=TEXT,
        autocompletion=complete_corpus,
    ),
]
TextFile = Annotated[
    Path | None,
    option("--file", help="your own text: a file, a folder, a column as rows.csv#body, or - for stdin", panel=TEXT),
]
ValFile = Annotated[
    Path | None, option("--val-file", help="validate on this text, and train on all of the other", panel=TEXT)
]
ValData = Annotated[
    str | None,
    option("--val-data", help="like --val-file, for a named corpus", panel=TEXT, autocompletion=complete_corpus),
]
Budget = Annotated[int | None, option("--budget", help="bytes to take of a Hugging Face dataset or a task", panel=TEXT)]
EngineName = Annotated[
    str | None,
    option(
        "--engine",
        help=f"compute backend: {', '.join(ENGINE_NAMES)}",
        default=CHOICE.name,
        panel=MACHINE,
        autocompletion=completion(ENGINE_NAMES),
    ),
]
Device = Annotated[
    str | None,
    option(
        "--device",
        help="auto, cpu, cuda or mps; of webgpu part of an adapter's name",
        default=CHOICE.device,
        panel=MACHINE,
    ),
]
Precision = Annotated[
    str | None,
    option(
        "--precision",
        help="auto, float32, tf32 or bf16; of webgpu float32 or f16",
        default=CHOICE.precision,
        panel=MACHINE,
    ),
]
Compile = Annotated[
    bool | None,
    option("--compile/--no-compile", help="compile the step before the first", default="no", panel=MACHINE),
]
Threads = Annotated[int | None, option("--threads", help="CPU threads", default="all", panel=MACHINE)]
WasmBuild = Annotated[
    str | None,
    option(
        "--wasm-build", help="of the wasm engines: scalar, simd or relaxed", default=CHOICE.wasm_build, panel=MACHINE
    ),
]
Without = Annotated[
    str | None,
    option(
        "--without",
        metavar="PASSES",
        help="leave out passes: fuse (all), or a list of merge, activations, residuals, dispatches",
        default="none",
        panel=MACHINE,
    ),
]
Quiet = Annotated[bool, option("--quiet", "-q", help="warnings and errors only", panel=OUTPUT)]
Json = Annotated[bool, option("--json", help="JSON for machines on stdout, and nothing else", panel=OUTPUT)]


def engine_changes(
    name: str | None,
    device: str | None,
    precision: str | None = None,
    compile: bool | None = None,
    threads: int | None = None,
    wasm_build: str | None = None,
    without: str | None = None,
) -> dict[str, Any]:
    """What the machine flags say, by EngineChoice's field."""
    if threads is not None and threads < 1:
        raise TinyGPTError(f"the number of threads must be at least 1, not {threads}; leave --threads out to use all")
    stated = {"name": name, "device": device, "precision": precision, "compile": compile, "threads": threads}
    if without is not None:
        optional_passes(without)
    return given({**stated, "wasm_build": wasm_build, "without": without})


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Without those that were not stated."""
    return {name: value for name, value in values.items() if value is not None}
