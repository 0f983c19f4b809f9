"""The training loop in a browser tab: core's own, over an engine that JavaScript holds.

Everything crosses as JSON text (which both sides read and write exactly) or as a promise; the corpus, the weights and
the file's bytes stay in JavaScript. web/src/engine/python.ts is the other side.
"""

import gc
import json

from tinygpt.core.config import (
    DEFAULT_PRESET,
    PRESETS,
    ModelConfig,
    RunConfig,
    SampleConfig,
    TrainConfig,
    check_corpus,
    corpus_advice,
    preset,
    train_bytes,
)
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.feeding import adamw_rates
from tinygpt.core.header import encode_run, encode_state
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.plan.cpu.recipe import recipe
from tinygpt.core.plan.gpu.recipe import device_of, gpu_recipe
from tinygpt.core.progress import Progress
from tinygpt.core.room import doubt
from tinygpt.core.sampler import generate
from tinygpt.core.text import decode
from tinygpt.core.trainer import Diverged, Host, Trainer
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAN = float("nan")
DEEPEST = 64  # layers: planning takes their square, and in a tab already half a minute

# A run may diverge and a GPU may be lost at any time, so a state is kept now and then: this often (in seconds), and
# never for more than a twentieth of the time. One that is larger than this many bytes is not.
KEEP_FIRST = 5.0
KEEP_EVERY = 30.0
KEEP_SHARE = 20
KEEP_LARGEST = 2**30
STATE_BYTES = 12  # a parameter: its value and AdamW's two moments


def facts() -> str:
    """What the page shows before anything runs: presets and knobs, as config.py has them."""
    presets, knobs = [], []
    for row in PRESETS:
        shown: dict[str, Any] = {name: getattr(row, name) for name in ("name", "layers", "d_model", "heads", "ctx")}
        shown.update({"batch": row.batch, "steps": row.steps})
        shown["parameters"] = parameter_count(preset(row.name).model)
        presets.append(shown)
    for section in (ModelConfig, TrainConfig, SampleConfig):
        for field in section.FIELDS:
            knob = {"section": section.SECTION, "name": field.name, "kind": field.kind, "default": field.default}
            knob.update({"low": field.low, "high": field.high, "choices": field.choices, "help": field.help})
            knob.update({"label": field.label, "fixed": field.fixed})
            knobs.append(knob)
    return json.dumps({"presets": presets, "knobs": knobs, "defaultPreset": DEFAULT_PRESET})


def recipe_text(config: RunConfig) -> str:
    return json.dumps(recipe(config))


class TabEngine:
    """engines/base.py's contract over a JavaScript engine."""

    replicas = 1

    def __init__(self, config: RunConfig, engine: "Any", session: "Session") -> None:
        self.config = config
        self.engine = engine
        self.session = session

    @property
    def metrics_every(self) -> int:
        return int(self.engine.metricsEvery())

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        rates = adamw_rates(self.config.train, step, lr)
        await self.engine.trainStep(json.dumps([step, list(rates), offsets]))

    async def read_metrics(self) -> "list[Any]":
        rows = json.loads(await self.engine.readMetrics())
        return [(step, NAN if loss is None else loss, NAN if norm is None else norm) for step, loss, norm in rows]

    async def eval_loss(self, offsets: list[int]) -> float:
        loss = json.loads(await self.engine.evalLoss(json.dumps(offsets)))
        return NAN if loss is None else float(loss)

    async def export_state(self) -> None:
        """The page sets it aside."""
        await self.session.page.setAside()

    async def prefill(self, tokens: bytes) -> "list[float]":
        return logits_of(await self.engine.prefill(json.dumps(list(tokens))))

    async def decode(self, token: int) -> "list[float]":
        return logits_of(await self.engine.decode(token))

    async def agree(self, flag: bool) -> bool:
        """Between two steps: the moment for what the page has asked for meanwhile."""
        await self.session.attend()
        return flag


def logits_of(text: str) -> "list[float]":
    """JSON has null for what is not finite."""
    values = json.loads(text)
    return [NAN if value is None else value for value in values] if None in values else values


class TabHost(Host):
    """Checkpoints are states in the page's memory, and come by the clock."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.page = session.page
        self.keep_at = self.now() + KEEP_FIRST

    def now(self) -> float:
        return float(self.page.now())

    def emit(self, event: "dict[str, Any]") -> None:
        self.page.emit(json.dumps(event))

    def should_stop(self) -> bool:
        return bool(self.page.stopping())

    def checkpoint_due(self, step: int, every: int) -> bool:
        if self.now() < self.keep_at or not self.session.keepable:
            return False
        self.keep_at = self.now()
        return True

    def keeps(self, kind: str) -> bool:
        """Only what could be lost: a start can be made again, and what WebAssembly holds is safe."""
        run = self.session
        return kind == "last" and run.keepable and run.device is not None and run.progress.step > 0

    async def save(self, kind: str, state: None, progress: Progress) -> bool:
        took = self.now() - self.keep_at
        self.keep_at = self.now() + max(KEEP_EVERY, KEEP_SHARE * took)
        return bool(self.page.keep(json.dumps(self.session.header(progress))))

    async def go_back(self) -> None:
        await self.page.goBack()


def labelled(call: "Any") -> "Any":
    """The call, whose errors speak of settings as the page does."""

    def called(*arguments: "Any") -> "Any":
        try:
            return call(*arguments)
        except TinyGPTError as error:
            raise TinyGPTError(in_labels(str(error)))  # noqa: B904 (MicroPython shows the first line of a chain)

    return called


class Session:
    """One run: from what the page asked for to the end of training, and what can be done with the model then.

    The request: preset, changes, bytes (of the corpus; none where the model only writes); what it goes on `from`: a
    file as tab_file.py states it, or a session as it `stands`; of the GPU to plan for `device`, else WebAssembly is;
    `memory` as the browser reports it (`reported`, in bytes or none), unless the GPU has its own.
    """

    @labelled
    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.progress = Progress()
        origin = asked.get("from")
        if origin is None:
            self.config = preset(asked["preset"]).replace(**asked["changes"])
        else:
            before = RunConfig(ModelConfig(**origin["config"]["model"]), TrainConfig(**origin["config"]["train"]))
            self.config = before.going_on(**asked["changes"])
            self.progress = Progress.from_dict(origin["progress"])
        if self.config.model.layers > DEEPEST:
            raise TinyGPTError(
                f"this model has {self.config.model.layers:,} layers, and a tab plans at most {DEEPEST}; "
                f"use the terminal, as by: tinygpt sample FILE"
            )
        self.memory = asked.get("memory")
        self.device = asked.get("device")
        self.prompt = (asked.get("prompt") or "\n").encode()
        self.trains = asked["bytes"] is not None
        corpus = asked["bytes"] or 0
        self.train_bytes = train_bytes(corpus, self.config.train.val_fraction)
        self.val_bytes = corpus - self.train_bytes
        self.parameters = parameter_count(self.config.model)
        self.engine: TabEngine | None = None
        self.page: Any = None

    @labelled
    def plan(self) -> str:
        """The recipe for the engine, and what the page shows of the run; `doubt` is a question to ask before."""
        advice = []
        if self.trains:
            check_corpus(self.config, self.train_bytes)
            advice = corpus_advice(self.config, self.train_bytes, self.val_bytes, self.parameters)
        made = self.recipe()
        return json.dumps(
            {
                "recipe": made,
                "doubt": "" if self.memory is None else doubt(self.needed(made), self.memory["reported"]),
                "config": self.config.as_dict(),
                "parameters": self.parameters,
                "trainBytes": self.train_bytes,
                "valBytes": self.val_bytes,
                "advice": [in_labels(sentence) for sentence in advice],
            }
        )

    def needed(self, made: "dict[str, Any]") -> int:
        """Bytes: what the engine takes, and the states that are kept meanwhile."""
        engine = sum(made["buffers"]) if self.device is not None else 4 * made["arena"]
        return int(engine + (2 * self.state_bytes if self.trains and self.keepable else 0))

    @property
    def state_bytes(self) -> int:
        return STATE_BYTES * self.parameters

    @property
    def keepable(self) -> bool:
        return self.state_bytes <= KEEP_LARGEST

    def recipe(self) -> "dict[str, Any]":
        config = self.config if self.trains else self.config.replace(batch=1, grad_accum=1)
        if self.device is None:
            return recipe(config)
        device = device_of(self.device)
        device.f16 = False  # what the page trains, it trains in float32
        return gpu_recipe(config, device)

    def attach(self, engine: "Any", page: "Any") -> None:
        self.engine = TabEngine(self.config, engine, self)
        self.page = page
        gc.collect()  # what the plan has left: the heap is swept at every step

    async def train(self) -> str:
        """JSON: why it ended and at which step, or the sentence of an error."""
        host = TabHost(self)
        try:
            trainer = Trainer(
                self.config, self.engine, host, self.train_bytes, self.val_bytes, self.progress, self.prompt
            )
            return json.dumps({"reason": await trainer.run(), "step": self.progress.step})
        except Diverged as error:
            return json.dumps({"reason": "diverged", "step": self.progress.step, "message": in_labels(str(error))})
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})

    async def attend(self) -> None:
        """Do what the page has asked for: {"type": "save"} or {"type": "sample", "prompt", "settings"}."""
        for request in json.loads(self.page.requests()):
            try:
                if request["type"] == "save":
                    await self.page.save(self.header_text())
                else:
                    settings = SampleConfig(**request["settings"])
                    made = await generate(self.engine, self.config.model.ctx, request["prompt"].encode(), settings)
                    self.page.sampled(decode(made))
            except TinyGPTError as error:
                self.page.refused(in_labels(str(error)))

    def stands(self) -> str:
        """What another session needs to know to go on from here."""
        return json.dumps({"config": self.config.as_dict(), "progress": self.progress.as_dict()})

    def header_text(self) -> str:
        return json.dumps(self.header(self.progress))

    def header(self, progress: Progress) -> "dict[str, Any]":
        """Of a file as the run stands; JavaScript fills in the digest and the date."""
        engine = "wasm" if self.device is None else "webgpu"
        header = encode_run(self.config, progress, engine, {}, None, "")
        header.update(encode_state(self.config.model, 3, ""))
        return header
