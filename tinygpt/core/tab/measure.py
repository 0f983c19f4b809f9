"""How fast this machine trains in a tab, by a fixed protocol, so that figures of different people can be compared.

Real steps of one preset on WebGPU, then on WebAssembly, and both once more.
"""

import json

from tinygpt import __version__
from tinygpt.core.engine.rate import Rate
from tinygpt.core.ops.record import RING
from tinygpt.core.presets import preset
from tinygpt.core.tab.engine import Held, TabMachine, tab_engine
from tinygpt.core.train.blocks import BLOCK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

PRESET = "large"
RECIPE = "classic"  # as `tinygpt bench` has it
ROUNDS = 2
WARM_UP = 3  # steps that are left out
READ_STEPS = 30  # at least so many are read, unless they take too long,
READ_SECONDS = 1.0  # and for at least so long
PATIENCE = 15.0  # seconds, after which a few will do
FEWEST_STEPS = 5
UNSTEADY = 0.1  # rounds that differ by more are remarked on

BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Version/", "Safari"))
SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def plan(request: str) -> str:
    """Which engines are read, in their order."""
    gpu = json.loads(request)["gpu"]
    engines = ["wasm"] if gpu is None or gpu["software"] else ["webgpu", "wasm"]
    return json.dumps([[engine, number] for number in range(1, ROUNDS + 1) for engine in engines])


class Reading:
    """One engine, once."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.config = preset(asked["preset"] or PRESET, RECIPE)
        self.bytes = asked["bytes"]
        self.machine = TabMachine(asked.get("device"))

    async def read(self, worker: "Any", text: "Any") -> str:
        """An event reports every block."""
        self.machine.worker = worker
        engine = tab_engine(self.config, self.machine, None)
        await engine.load_corpus(Held(text, self.bytes), Held(worker.zeros(0), 0))
        for _ in range(WARM_UP):
            await engine.train(1)
            await engine.read_metrics()
        rate, steps = Rate(), 0
        began = before = float(worker.now())
        while not enough(steps, before - began):
            done = await engine.train(rate.fitting(BLOCK_SECONDS, RING))
            await engine.read_metrics(1)  # a GPU has the next block before this one is read
            now = float(worker.now())
            rate.add(done, now - before)
            steps, before = steps + done, now
            worker.emit(json.dumps({"event": "measuring", "steps": steps}))
        await engine.read_metrics()
        seconds = float(worker.now()) - began
        return json.dumps({"steps": steps, "ms": 1000 * seconds / steps, "engine": engine.describe()})


def enough(steps: int, seconds: float) -> bool:
    if seconds >= PATIENCE:
        return steps >= FEWEST_STEPS
    return steps >= READ_STEPS and seconds >= READ_SECONDS


def report(request: str) -> str:
    """The fields of the block to copy, in their order, and the figures to plot, in ms per step."""
    asked = json.loads(request)
    name = asked["preset"] or PRESET
    figures = {engine: figure(asked["readings"], engine) for engine in ("webgpu", "wasm")}
    tokens = preset(name, RECIPE).train.batch * preset(name, RECIPE).model.ctx
    webgpu, wasm = figures["webgpu"], figures["wasm"]
    gpu = asked["gpu"]
    fields = [
        ["device", machine(asked["cores"], asked["memory"])],
        ["os/browser", browser_of(asked["agent"])],
        ["adapter", "none" if gpu is None else gpu["adapter"]],
        ["preset", f"{name}, {RECIPE}"],
        ["steps read", ", ".join([str(reading["steps"]) for reading in asked["readings"]])],
        ["webgpu", speed(asked["readings"], "webgpu", tokens)],
        ["wasm-simd", speed(asked["readings"], "wasm", tokens)],
        ["ratio", f"{wasm / webgpu:.1f}" if webgpu and wasm else "none"],
        ["notes", " ".join(notes(asked))],
    ]
    return json.dumps({"fields": fields, "figures": figures})


def of_engine(readings: "list[Json]", name: str) -> "list[Json]":
    return [reading for reading in readings if reading["name"] == name]


def figure(readings: "list[Json]", name: str) -> "float | None":
    """The mean of the rounds."""
    found = [reading["ms"] for reading in of_engine(readings, name)]
    return sum(found) / len(found) if found else None


def speed(readings: "list[Json]", name: str, tokens: int) -> str:
    mean = figure(readings, name)
    if mean is None:
        return "none"
    each = ", ".join([f"{reading['ms']:.3g}" for reading in of_engine(readings, name)])
    return f"{mean:.3g} ms per step ({each}), {round(1000 * tokens / mean):,} tokens per second"


def notes(asked: "Json") -> list[str]:
    said = [f"TinyGPT {__version__}."]
    gpu = asked["gpu"]
    if gpu is None:
        said.append("No WebGPU here.")
    elif gpu["software"]:
        said.append("The adapter is software that computes on the CPU: it is not a GPU, and there is no figure for it.")
    for name in ("webgpu", "wasm"):
        found = of_engine(asked["readings"], name)
        if found:
            said.append(f"{found[-1]['engine']}.")
            times = [reading["ms"] for reading in found]
            if max(times) > (1 + UNSTEADY) * min(times):
                off = round(100 * (max(times) / min(times) - 1))
                said.append(f"The rounds differ by {off} %: something else may have been at work.")
    if asked["note"]:
        said.append(asked["note"])
    return said


def machine(cores: int, memory: "int | None") -> str:
    known = "" if memory is None else f", {memory // 2**30} GB of memory or more"
    return f"{cores} logical core{'s' if cores > 1 else ''}{known}"


def browser_of(agent: str) -> str:
    """A system and a browser with its version, as far as a user agent's line says so."""
    system = [name for mark, name in SYSTEMS if mark in agent]
    for mark, name in BROWSERS:
        if mark in agent:
            version = agent[agent.find(mark) + len(mark) :].split(".")[0].split(" ")[0]
            return f"{system[0] if system else 'unknown'}, {name} {version}"
    return f"{system[0] if system else 'unknown'}, unknown"
