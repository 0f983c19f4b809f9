"""A run of a lab at full speed: planned by the room's sources, replayed by WebAssembly or WebGPU. It keeps nothing."""

import json

from tinygpt.core.capsule.compare import replay
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tab.engine import Held, TabMachine, tab_engine
from tinygpt.core.wording import in_labels
from tinygpt.labs.room import config_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Training:
    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.config = config_of(asked).replace(steps=asked["steps"], seed=asked.get("seed", 0))
        self.bytes = asked["bytes"]
        self.machine = TabMachine(asked.get("device"))

    async def run(self, worker: "Any", text: "Any") -> str:
        """Every block's losses are told; the step that was reached."""
        self.machine.worker = worker
        try:
            engine = tab_engine(self.config, self.machine, None)
            await engine.load_corpus(Held(text, self.bytes), Held(worker.zeros(0), 0))
            worker.emit(json.dumps({"event": "begun", "engine": engine.describe(), "steps": self.config.train.steps}))

            def told(metrics: "list[Any]") -> None:
                worker.emit(json.dumps({"event": "losses", "rows": [[row.step, row.loss] for row in metrics]}))

            steps = self.config.train.steps
            reached = await replay(engine, [[0, steps]], 0, steps, worker.now, told, lambda: bool(worker.stopping()))
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})
        return json.dumps({"step": reached})
