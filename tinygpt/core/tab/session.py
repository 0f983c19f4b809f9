"""A run in a browser tab: core's own engine and loop, as the page asks for them."""

import gc
import json

from tinygpt.core.advice.coach import coach_of
from tinygpt.core.config import RunConfig, run_config_of
from tinygpt.core.corpus import check_corpus, corpus_advice, train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.adapter import ADAPTER_KEY, encode_adapter, require_base, tensors_of
from tinygpt.core.file.header import array_bytes, encode_run, encode_state
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.memory import state_floats, table_floats, weight_count
from tinygpt.core.models.programs import WRITING, training_modes
from tinygpt.core.optimizers import check_slots, slot_names
from tinygpt.core.tab.asked import run_of
from tinygpt.core.tab.budget import Timed
from tinygpt.core.tab.engine import Held, TabMachine, TabState, check_depth, tab_engine
from tinygpt.core.tab.room import doubt
from tinygpt.core.tab.shelf import Keeping, problem_text, weight_pieces
from tinygpt.core.tab.writer import weigh, write
from tinygpt.core.train.exam import exam_of
from tinygpt.core.train.host import Host
from tinygpt.core.train.progress import Progress
from tinygpt.core.train.trainer import Diverged, Trainer
from tinygpt.core.train.validation import validate
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.train.host import Block

NOTHING_KEPT = {"records": [None, None], "snapshots": [], "durable": False}
UNKNOWN_DEVICE = "an earlier engine"
NO_MEMORY = ["", "there is no memory for a copy of it"]


class TabHost(Host):
    """Checkpoints lie in the browser's storage (shelf.py), and come by the clock."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.worker = session.worker

    def now(self) -> float:
        return float(self.worker.now())

    def emit(self, event: "dict[str, Any]") -> None:
        if event["event"] == "advice":
            event["text"] = in_labels(event["text"])
        elif event["event"] == "eval":
            self.session.keeping.validated(event["step"], event["val_loss"])
        self.worker.emit(json.dumps(event))

    def emit_steps(self, block: "Block") -> None:
        """All in one message."""
        eta_s = block.eta_s(block.rows[-1][0])
        self.emit({"event": "steps", "rows": block.rows, "tokens_per_s": block.tokens_per_s, "eta_s": eta_s})

    def should_stop(self) -> bool:
        return bool(self.worker.stopping())

    def waiting(self) -> bool:
        return bool(self.worker.waiting()) or self.session.keeping.soon(self.now())

    def checkpoint_due(self, step: int, every: int) -> bool:
        return self.session.keeping.due(self.now(), step)

    def keeps(self, kind: str) -> bool:
        """A start can be made again, and an end is kept once the page has heard of it (`Session.keep_end`)."""
        return False

    async def save(self, kind: str, state: "TabState | None", progress: Progress) -> bool:
        session, keeping = self.session, self.session.keeping
        order = keeping.order(progress, session.record())
        order["header"] = session.header(progress)
        order["weights"] = weight_pieces(session.config)
        fault = NO_MEMORY
        if state is not None:
            fault = json.loads(await self.worker.keep(json.dumps(order), state.held.handle))
        if fault is None:
            keeping.kept(self.now(), order)
            session.origin = None
            return True
        keeping.failed(self.now(), order)
        self.emit({"event": "unkept", "step": progress.step, "text": problem_text(fault[0], fault[1], keeping.step)})
        return False

    async def go_back(self) -> None:
        session = self.session
        if session.keeping.step is None or session.origin is not None:
            await (session.engine.restart() if session.origin is None else session.engine.import_state(session.origin))
            return
        handle = await self.worker.kept(session.keeping.step)
        if handle is None:
            raise TinyGPTError("the model that was kept cannot be read any more; load a file, or train anew")
        await session.engine.import_state(TabState(session.keeping.step, Held(handle, session.state_bytes)))


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

    Without bytes of a text the model only writes. New adapters have a `base` and `lora` instead of a preset.
    """

    @labelled
    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.progress = Progress()
        origin = asked.get("origin")
        self.base = asked.get("base")
        standing = origin or self.base or {}
        self.config = run_of(asked, standing.get("config"), asked.get("lora"))
        if origin is not None:
            self.progress = Progress.from_dict(origin["progress"])
        self.adapter = None if self.base is None else adapter_of(asked, self.config)
        check_depth(self.config.model)
        budget = asked.get("budget")
        self.timed = None if budget is None else Timed(budget, asked["preset"], self.config)
        self.memory = asked.get("memory")
        self.machine = TabMachine(asked.get("device"))
        self.prompt = (asked.get("prompt") or "\n").encode()
        self.trains = asked["bytes"] is not None
        self.found_slots = [] if origin is None else origin["slots"]
        self.exam = None
        if self.trains:
            check_slots(self.config.train, self.found_slots)
            self.exam = exam_of(asked.get("textName", ""), self.config.model.ctx)
        corpus = asked["bytes"] or 0
        self.train_bytes = train_bytes(corpus, self.config.train.val_fraction)
        self.val_bytes = corpus - self.train_bytes
        self.parameters = trained_count(self.config)
        self.slots = slot_names(self.config.train)
        self.resumed = origin is not None
        # What its weights are read in, if not as floats: those of a file, of a model that only writes.
        dtype = "" if origin is None or self.trains else origin.get("dtype", "")
        self.compact = dtype if dtype in self.machine.compact else ""
        train = self.config.train
        self.keeping = Keeping(asked.get("kept") or NOTHING_KEPT, self.state_bytes, train.steps, train.keep_every)
        # What a run that diverges goes back to until it has kept a state of its own; None: to its start values.
        self.origin: TabState | None = None
        self.engine: Any = None  # once it is open
        self.worker: Any = None

    @labelled
    def plan(self) -> str:
        """What the page shows of the run, before it takes any memory; `doubt` is a question to ask before."""
        advice = []
        if self.trains:
            check_corpus(self.config, self.train_bytes)
            advice = corpus_advice(self.config, self.train_bytes, self.val_bytes, self.parameters)
            advice += self.keeping.advice()
        modes = training_modes(self.config, self.val_bytes) if self.trains else WRITING
        if not self.resumed and self.machine.starts:
            modes = modes + [self.machine.starts]
        how = {"train_bytes": self.train_bytes, "val_bytes": self.val_bytes, "compact": self.compact}
        lowered = self.machine.lower(self.config, modes, **how)
        return json.dumps(
            {
                "bytes": lowered.bytes(),
                "doubt": "" if self.memory is None else doubt(self.needed(lowered.bytes()), self.memory["reported"]),
                "config": self.config.as_dict(),
                "parameters": self.parameters,
                "compact": self.compact != "",
                "trainBytes": self.train_bytes,
                "valBytes": self.val_bytes,
                "advice": [in_labels(sentence) for sentence in advice],
            }
        )

    def needed(self, player: int) -> int:
        """Bytes: what the player takes, the states that are kept meanwhile, and what adapters stand on."""
        base = 0 if self.base is None else 4 * weight_count(self.config.model)
        return player + base + (2 * self.state_bytes if self.trains and self.keeping.able else 0)

    @property
    def state_bytes(self) -> int:
        return 4 * state_floats(self.config, len(self.slots))

    async def open(self, worker: "Any", train: "Any", val: "Any", state: "Any", base: "Any" = None) -> None:
        """Take memory, the texts, the state to go on from (null: start values) and the weights that adapters stand
        on."""
        self.worker = self.machine.worker = worker
        if self.resumed:
            size = self.state_bytes
            if self.compact:
                size = array_bytes(self.config.model, self.compact) + 4 * table_floats(self.config.model)
            whole = len(self.found_slots) > 0
            self.origin = TabState(self.progress.step, Held(state, size), whole, self.compact)
        frozen = None if self.base is None else Held(base, 4 * weight_count(self.config.model))
        self.engine = tab_engine(self.config, self.machine, self.origin, self, frozen)
        if self.trains:
            await self.engine.load_corpus(Held(train, self.train_bytes), Held(val, self.val_bytes))
        else:
            await self.engine.require(WRITING)
        if self.machine.device is None:
            gc.collect()

    async def train(self) -> str:
        host = TabHost(self)
        self.keeping.begin(host.now())
        try:
            # The coach knows whole models only, and prose.
            knows = self.adapter is None and self.exam is None
            coach = coach_of(self.config, self.train_bytes) if knows else None
            pace = None if self.timed is None else self.timed.pace(host.now())
            trainer = Trainer(
                self.config,
                self.engine,
                host,
                self.train_bytes,
                self.val_bytes,
                self.progress,
                self.prompt,
                coach=coach,
                exam=self.exam,
                pace=pace,
            )
            await self.measure_base(host, trainer)
            reason = await trainer.run()
            self.config = trainer.config  # it may have been given another length
            if self.timed is not None and reason == "finished" and self.progress.best_val is not None:
                host.emit(self.timed.verdict(self.config, self.progress.best_val))
            return json.dumps({"reason": reason, "step": self.progress.step})
        except Diverged as error:
            return json.dumps({"reason": "diverged", "step": self.progress.step, "message": in_labels(str(error))})
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})

    async def measure_base(self, host: TabHost, trainer: Trainer) -> None:
        """Adapters that have not learnt yet change nothing: what they stand on is told of first."""
        if self.adapter is not None and self.progress.step == 0 and trainer.validating:
            loss = await validate(self.engine, trainer.stops, host.now, trainer.batch_rate)
            if loss is not None:
                host.emit({"event": "base", "step": 0, "val_loss": loss})

    async def keep_end(self) -> None:
        """Where the run has ended, unless that is kept."""
        step, host = self.progress.step, TabHost(self)
        if self.keeping.able and self.keeping.step != step and step > 0:
            self.keeping.began = host.now()
            if await host.save("last", await self.engine.export_state(), self.progress):
                host.emit({"event": "checkpoint", "step": step, "kind": "last"})

    async def attend(self) -> None:
        """Do what the page has asked for: to save, to keep, to lend its weights to who looks inside, to write, or to
        weigh what could be written."""
        for request in json.loads(self.worker.requests()):
            try:
                if request["type"] in ("save", "look"):
                    await self.engine.memory.unpack()
                if request["type"] == "save":
                    await self.worker.save(*self.to_give_away())
                elif request["type"] == "keep":
                    self.keeping.hurry()
                elif request["type"] == "look":
                    await self.worker.lend(json.dumps(self.engine.memory.state_places()))
                elif request["type"] == "weigh":
                    await weigh(self.worker, self.engine, request)
                else:
                    await write(self.worker, self.engine, request)
            except TinyGPTError as error:
                self.worker.refused(in_labels(str(error)))

    def stands(self) -> str:
        """What another session needs to know to go on from here."""
        standing = {"config": self.config.as_dict(), "progress": self.progress.as_dict(), "slots": self.found_slots}
        standing.update({"adapter": self.adapter, "dtype": "float32"})
        return json.dumps(standing)

    def to_give_away(self) -> "tuple[str, str]":
        """A file's header and the places of its floats; of adapters no more than it takes to use them."""
        if self.adapter is None:
            return self.header_text(), json.dumps(self.engine.file_places())
        header = self.header(self.progress, ())
        del header["description"]["lossHistory"]  # it may outweigh a small adapter
        return json.dumps(header), json.dumps(self.engine.memory.state_places())

    async def state_places(self) -> str:
        """Where the state of a model file lies, behind its step."""
        if self.engine is None:
            return "[]"
        await self.engine.memory.unpack()
        return json.dumps(self.engine.file_places())

    def record(self) -> "dict[str, Any]":
        """What the record of a checkpoint says beside its progress."""
        facts = {"config": self.config.as_dict(), "parameters": self.parameters}
        facts.update({"engine": self.machine.name, "devices": self.devices()})
        return facts

    def devices(self) -> "list[str]":
        """What has computed this run so far, in words."""
        before = self.keeping.devices or ([UNKNOWN_DEVICE] if self.resumed and self.progress.step else [])
        here = self.engine.describe()
        return before if here in before else before + [here]

    def header_text(self) -> str:
        return json.dumps(self.header(self.progress))

    def header(self, progress: Progress, slots: "tuple[str, ...] | None" = None) -> "dict[str, Any]":
        """Of a file as the run stands; JavaScript fills in the digest and the date. Adapters' is a safetensors file's:
        its tensors and the metadata's text, with their names."""
        slots = self.slots if slots is None else slots
        if self.adapter is None:
            header = encode_run(self.config, progress, self.machine.name, {}, None, "")
            header.update(encode_state(self.config.model, slots, ""))
            return header
        name, sha256 = self.adapter["name"], self.adapter["baseSha256"]
        described = encode_adapter(self.config, progress, self.machine.name, {}, name, sha256, "")
        return {"key": ADAPTER_KEY, "description": described, "tensors": tensors_of(self.config, slots)}


def adapter_of(asked: "dict[str, Any]", config: RunConfig) -> "dict[str, str]":
    """What it is called, and the weights it stands on, which are the base's."""
    base, origin = asked["base"], asked.get("origin")
    if origin is None:
        return {"name": asked.get("title") or "adapter", "baseSha256": base["sha256"]}
    stated: dict[str, str] = origin["adapter"]
    made_on = run_config_of(base["config"]).model
    require_base(stated["name"], config.model, stated["baseSha256"], made_on, base["sha256"])
    return stated
