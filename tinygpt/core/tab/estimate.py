"""How long a run would take here, and how much memory, before it begins."""

import json

from tinygpt.core.advice.measure import duration, measure
from tinygpt.core.config import run_config_of, validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import weight_count
from tinygpt.core.optimizers import slot_names
from tinygpt.core.tab.engine import Held, tab_engine
from tinygpt.core.tab.session import Session
from tinygpt.core.train.progress import Progress
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEASURED_SECONDS = 1.0  # of steps


class Estimate:
    """Of a session that is asked for. How fast it is does not depend on its weights, so none are taken.

    `plan` is the session's, and takes no memory.
    """

    def __init__(self, request: str) -> None:
        self.session = Session(json.dumps(request_of(json.loads(request))))
        self.plan = self.session.plan

    async def measure(self, worker: "Any", train: "Any", val: "Any") -> str:
        session = self.session
        config, machine, began = session.config, session.machine, float(worker.now())
        machine.worker = worker
        validating = validates(config, session.val_bytes)
        try:
            frozen = 0 if session.base is None else 4 * weight_count(config.model)
            engine = tab_engine(config, machine, None, base=machine.zeros(frozen) if frozen else None)
            await engine.load_corpus(Held(train, session.train_bytes), Held(val, session.val_bytes))
            speed = await measure(engine, began, worker.now, MEASURED_SECONDS, validating)
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})
        seconds = duration(config, session.progress.step, validating, speed)
        return json.dumps({"seconds": seconds, "ms": 1000 * speed.step})


def request_of(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Of an estimate's request, a session's."""
    hand = asked.get("inHand")
    if hand is None:
        return asked
    config = run_config_of(hand["config"])
    if asked.get("lora") is None:
        progress = Progress()
        progress.step = hand["step"]
        origin = {"config": hand["config"], "progress": progress.as_dict(), "slots": list(slot_names(config.train))}
        asked["origin"] = dict(origin, adapter={"name": "", "baseSha256": ""})
    if config.lora is not None or asked.get("lora") is not None:
        asked["base"] = {"config": hand["config"], "sha256": ""}
    return asked
