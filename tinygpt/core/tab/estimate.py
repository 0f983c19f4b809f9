"""How long a run would take here, and how much memory, before it begins. What crosses is JSON, as in session.py."""

import json

from tinygpt.core.budget.measure import duration, measure
from tinygpt.core.corpus import validates
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tab.engine import Held, TabEngine
from tinygpt.core.tab.session import Session
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEASURED_SECONDS = 1.0  # of steps


class Estimate:
    """Of a session's request for a new run; `plan` is the session's, and takes no memory."""

    def __init__(self, request: str) -> None:
        self.session = Session(request)
        self.plan = self.session.plan

    async def measure(self, page: "Any", train: "Any", val: "Any") -> str:
        """{"seconds" of the whole run, "ms" of a step}, or the sentence of an error."""
        session = self.session
        config, machine, began = session.config, session.machine, float(page.now())
        machine.page = page
        validating = validates(config, session.val_bytes)
        try:
            engine = TabEngine(config, machine, None)
            await engine.load_corpus(Held(train, session.train_bytes), Held(val, session.val_bytes))
            speed = await measure(engine, began, page.now, MEASURED_SECONDS, validating)
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})
        seconds = duration(config, 0, validating, speed)
        return json.dumps({"seconds": seconds, "ms": 1000 * speed.step})
