"""The kernels compiled to WebAssembly, replayed by the tab's own player: in Node (`wasm-node`) or in Chromium
(`wasm-chromium`)."""

from __future__ import annotations

from typing import Any

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.cpu.lowering import COMPACT, Lowered
from tinygpt.engines.base import Base, State, terminal_engine
from tinygpt.engines.driven import DrivenPlayer
from tinygpt.engines.machine import check_threads
from tinygpt.engines.runner import Runner
from tinygpt.kernels.wasm import FEATURES

WASM_BUILDS = ("auto", *FEATURES)
PLACES = {"node": "Node", "chromium": "Chromium"}


class WasmMachine(Machine):
    compact = COMPACT

    def __init__(
        self,
        kind: str,
        *,
        threads: int | None = None,
        build: str = "auto",
        force64: bool = False,
        runner: Runner | None = None,
    ) -> None:
        check_threads(threads)
        if build not in WASM_BUILDS:
            raise TinyGPTError(f"the WebAssembly build must be one of {', '.join(WASM_BUILDS)}, not '{build}'")
        self.name = f"wasm-{kind}"
        self.kind = kind
        self.wanted: dict[str, Any] = {"threads": threads or 0, "force64": force64}
        if build != "auto":
            self.wanted["build"] = build
        self.runner = runner or Runner(kind)

    def lower(self, config: RunConfig, modes: list[str], **how: Any) -> Lowered:
        return Lowered(config, modes, **how)

    async def open(self, lowered: Lowered) -> DrivenPlayer:
        opened, _ = self.runner.ask("open", playbook=lowered.playbook(), **self.wanted)
        return DrivenPlayer(self.runner, opened, f", in {PLACES[self.kind]}")

    def describe(self) -> str:
        return f"WebAssembly, in {PLACES[self.kind]}"


def wasm_engine(
    kind: str,
    config: RunConfig,
    state: State | None = None,
    base: Base | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,
    threads: int | None = None,
    build: str = "auto",
) -> ProgramEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "cpu"):
        raise TinyGPTError(f"the wasm engines run on the CPU, not on '{device}'; use --engine torch for that device")
    if precision not in ("auto", "float32"):
        raise TinyGPTError(f"the wasm engines compute in float32, not in {precision}; use --engine torch for that")
    return terminal_engine(config, WasmMachine(kind, threads=threads, build=build), state, base)


def node_engine(
    config: RunConfig, state: State | None = None, base: Base | None = None, **options: Any
) -> ProgramEngine:
    return wasm_engine("node", config, state, base, **options)


def chromium_engine(
    config: RunConfig, state: State | None = None, base: Base | None = None, **options: Any
) -> ProgramEngine:
    return wasm_engine("chromium", config, state, base, **options)
