"""Engines as `bench` and `parity` list them: a name and, behind colons, options for this one alone.

`torch:cuda:tf32:compile`, `webgpu:f16`, `webgpu:llvmpipe`, `native:2`. An option is a precision, `compile`, a number of
threads, or else the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.select import EngineChoice, resolve_engine, settle

if TYPE_CHECKING:
    from tinygpt.cli.output import Output

PRECISIONS = ("float32", "tf32", "bf16", "f16")
WORDS = {"precision": "precision", "compile": "'compile'", "threads": "number of threads", "device": "device"}


class Listed(NamedTuple):
    label: str  # as it was written
    choice: EngineChoice


def listed(text: str, what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise TinyGPTError(f"name at least one {what}")
    return names


def listed_engines(text: str, flags: dict[str, Any]) -> list[Listed]:
    """The engines of a list, each known to be installed; their own options win over the flags for all.

    What auto is depends on the size of the model: `settled` knows.
    """
    engines = []
    for label in listed(text, "engine"):
        choice = EngineChoice()._replace(**{**flags, **spec_options(label)})
        resolve_engine(choice.name)
        engines.append(Listed(label, choice))
    if len({choice.threads for _, choice in engines if choice.name == "torch"}) > 1:
        raise TinyGPTError("PyTorch has one number of threads for all its engines; set it with --threads instead")
    return engines


def settled(engines: list[Listed], config: RunConfig, output: Output) -> list[Listed]:
    """For that model; of auto it is said what it is."""
    found = []
    for label, choice in engines:
        choice, why = settle(choice, config)
        if why:
            output.say(f"{label} is {choice.name}{':compile' * choice.compile}: {why}")
        found.append(Listed(label, choice))
    return found


def spec_options(spec: str) -> dict[str, Any]:
    """What a spec says, by EngineChoice's field."""
    name, *options = spec.split(":")
    found: dict[str, Any] = {"name": name}
    for option in options:
        field, value = option_of(name, option, found)
        if field in found and (field, found[field], value) != ("device", "cuda", f"cuda:{option}"):
            raise TinyGPTError(f"'{spec}' has more than one {WORDS[field]}")
        found[field] = value
    if "compile" in found and name not in ("torch", "auto"):
        raise TinyGPTError(f"'{spec}': only the torch engine takes compile")
    return found


def option_of(name: str, option: str, before: dict[str, Any]) -> tuple[str, Any]:
    if not option:
        raise TinyGPTError(f"an engine's option is missing behind a colon, as in 'torch:cuda:tf32', not '{name}:'")
    if option in PRECISIONS:
        return "precision", option
    if option == "compile":
        return "compile", True
    if option.isdecimal() and before.get("device") == "cuda":
        return "device", f"cuda:{option}"
    if option.isdecimal() and not name.startswith("webgpu"):  # which has no threads, but GPUs have numbers for names
        if int(option) < 1:
            raise TinyGPTError(f"'{name}:{option}': the number of threads must be at least 1")
        return "threads", int(option)
    return "device", option
