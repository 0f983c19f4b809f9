"""Capsules in a browser tab: one is made of a run that is kept, and one is replayed."""

import json

from tinygpt import __version__
from tinygpt.core.capsule.compare import Comparison, arithmetic_of, replay, require_start, require_text, stretch
from tinygpt.core.capsule.content import (
    Capsule,
    TextFacts,
    encode_capsule,
    lengths_with,
    read_capsule,
    told_steps,
    trace_of,
)
from tinygpt.core.config import run_config_of
from tinygpt.core.corpus import train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import state_floats
from tinygpt.core.tab.engine import Held, TabMachine, TabState, check_depth, tab_engine
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def made(request: str) -> str:
    """`rows` has each step with its loss and rate; `retimed` steps from which it had another length, with both."""
    asked = json.loads(request)
    config = run_config_of(asked["config"])
    if config.lora is not None:
        return json.dumps({"error": "a run of adapters has no capsule: it would need the model that they stand on"})
    lengths = lengths_with(config, asked["retimed"], asked["step"])
    config = config.replace(steps=lengths[-1][1])
    text, devices = asked["text"], asked["devices"]
    try:
        capsule = Capsule(
            tinygpt=__version__,
            title=asked["title"],
            config=config,
            lengths=lengths,
            text=TextFacts(
                text["name"], text["sha256"], text["bytes"], train_bytes(text["bytes"], config.train.val_fraction), 0
            ),
            engine=asked["engine"],
            device=one_device(devices),
            steps=asked["step"],
            losses=trace_of(config, lengths, asked["rows"], asked["step"], asked["tokensSeen"]),
            weights=asked["weights"],
        )
        return json.dumps({"capsule": encode_capsule(capsule)})
    except TinyGPTError as error:
        return json.dumps({"error": in_labels(str(error))})


def one_device(devices: "list[str]") -> str:
    """What computed; where that changed on the way, all of them, which no engine equals."""
    kinds = sorted({arithmetic_of(device): True for device in devices})
    return devices[-1] if len(kinds) == 1 else " and ".join(kinds)


class Replay:
    """A stretch of a capsule's run on an engine of its own. The capsule is one that JavaScript's JSON reader took."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.capsule = read_capsule(asked["capsule"])
        check_depth(self.capsule.config.model)
        self.first = 0  # the step that it begins behind
        self.slots = 0  # vectors beside the weights that it begins with; without any, with start values
        begun = asked.get("origin")
        if begun is not None:
            require_start(self.capsule, begun["name"], run_config_of(begun["config"]).model, begun["slots"])
            self.first, self.slots = begun["progress"]["step"], len(begun["slots"])
        self.last = stretch(self.capsule, self.first, asked.get("steps"))
        self.machine = TabMachine(asked.get("device"))
        self.worker: Any = None

    def facts(self) -> str:
        """What the page shows of the capsule."""
        capsule = self.capsule
        steps = told_steps(capsule.steps)
        return json.dumps(
            {
                "title": capsule.title,
                "model": capsule.config.model.describe(),
                "config": capsule.config.as_dict(),
                "text": {"name": capsule.text.name, "sha256": capsule.text.sha256, "bytes": capsule.text.bytes},
                "trainBytes": capsule.text.train,
                "device": capsule.device,
                "version": capsule.tinygpt,
                "steps": capsule.steps,
                "curve": [[steps[i], capsule.losses[i]] for i in range(len(steps))],
            }
        )

    def stops(self, runs: str) -> str:
        """The kept states, among the library's runs, that this one can begin with."""
        found = []
        for run in json.loads(runs):
            for stop in run["stops"] if self.is_of(run) else []:
                if 0 < stop["step"] < self.capsule.steps:
                    found.append({"run": run["id"], "title": run["title"], "step": stop["step"]})
        return json.dumps(found)

    def is_of(self, run: "dict[str, Any]") -> bool:
        """Whether a run has the capsule's text and settings; only its length may be another."""
        capsule = self.capsule
        try:
            config = run_config_of(run["config"])
        except TinyGPTError:
            return False  # of another version
        same = config.replace(steps=capsule.config.train.steps) == capsule.config
        return same and bool(run["text"]["sha256"] == capsule.text.sha256)

    def check_text(self, sha256: str, size: int) -> None:
        require_text(self.capsule, sha256, size)

    async def run(self, worker: "Any", text: "Any", state: "Any") -> str:
        """`text` is the part that is trained on, `state` what it begins with (null: start values). An event reports
        every block."""
        self.worker = self.machine.worker = worker
        capsule = self.capsule
        try:
            begun = None
            if self.slots:
                size = 4 * state_floats(capsule.config, self.slots)
                begun = TabState(self.first, Held(state, size))
            engine = tab_engine(capsule.config, self.machine, begun)
            await engine.load_corpus(Held(text, capsule.text.train), Held(worker.zeros(0), 0))
            comparison = Comparison(capsule, __version__, engine.describe())

            def told(metrics: "list[Any]") -> None:
                rows = [[step, loss, comparison.take(step, loss)] for step, loss, _ in metrics]
                worker.emit(json.dumps({"event": "replayed", "rows": rows}))

            worker.emit(json.dumps({"event": "replaying", "engine": engine.describe(), "steps": self.last}))
            reached = await replay(engine, capsule.lengths, self.first, self.last, worker.now, told)
            whole = reached == capsule.steps
            weights = await worker.digest(json.dumps(engine.memory.state_places())) if whole else None
            verdict = comparison.verdict(None if weights is None else str(weights))
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})
        return json.dumps({"verdict": verdict.verdict, "head": verdict.head, "text": verdict.text})
