"""The kernels compiled to WebAssembly, replayed by the tab's own player: in Node (`wasm-node`) or in Chromium
(`wasm-chromium`)."""

from __future__ import annotations

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.plan.cpu.recipe import recipe
from tinygpt.engines.base import State
from tinygpt.engines.driven import DrivenEngine
from tinygpt.engines.machine import check_threads
from tinygpt.engines.runner import Runner
from tinygpt.kernels.wasm import FEATURES

WASM_BUILDS = ("auto", *FEATURES)
MOST_STEPS = 10
FLOPS_TOGETHER = 5e10


class WasmEngine(DrivenEngine):
    def __init__(
        self,
        config: RunConfig,
        kind: str,
        state: State | None = None,
        *,
        threads: int | None = None,
        build: str = "auto",
        force64: bool = False,
        runner: Runner | None = None,
    ) -> None:
        check_threads(threads)
        if build not in WASM_BUILDS:
            raise TinyGPTError(f"the WebAssembly build must be one of {', '.join(WASM_BUILDS)}, not '{build}'")
        super().__init__(config, runner or Runner(kind), MOST_STEPS, FLOPS_TOGETHER)
        self.name = f"wasm-{kind}"
        self.kind = kind
        wanted = {"threads": threads or 0, "force64": force64} | ({} if build == "auto" else {"build": build})
        made = recipe(config)
        self.places = made["places"]
        opened, _ = self.runner.ask("open", b"", recipe=made, **wanted)
        self.threads = opened["threads"]
        self.description = opened["description"]
        if state is not None:
            self.set_state(state)

    def describe(self) -> str:
        return f"{self.description}, in {'Node' if self.kind == 'node' else 'Chromium'}"


def wasm_engine(
    kind: str,
    config: RunConfig,
    state: State | None,
    *,
    device: str,
    precision: str,
    compile: bool,
    threads: int | None,
    build: str,
) -> WasmEngine:
    """The engine as the command line asks for it."""
    if device not in ("auto", "cpu"):
        raise TinyGPTError(f"the wasm engines run on the CPU, not on '{device}'; use --engine torch for that device")
    if precision not in ("auto", "float32"):
        raise TinyGPTError(f"the wasm engines compute in float32, not in {precision}; use --engine torch for that")
    return WasmEngine(config, kind, state, threads=threads, build=build)


def node_engine(config: RunConfig, state: State | None = None, **options: object) -> WasmEngine:
    return wasm_engine("node", config, state, **options)  # type: ignore[arg-type]


def chromium_engine(config: RunConfig, state: State | None = None, **options: object) -> WasmEngine:
    return wasm_engine("chromium", config, state, **options)  # type: ignore[arg-type]
