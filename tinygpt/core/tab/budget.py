"""Which run makes the most of a number of seconds in a browser tab."""

import json

from tinygpt.core.advice.choose import Asked, Option, Survey, sizes
from tinygpt.core.advice.facts import option_facts, verdict
from tinygpt.core.advice.hardness import LEARNED, SCORED, hardness_of, places
from tinygpt.core.advice.law import RECIPE, Prediction, TextFacts
from tinygpt.core.advice.pace import Pace
from tinygpt.core.config import SampleConfig, TrainConfig
from tinygpt.core.corpus import train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.core.tab.engine import Held, TabMachine, tab_engine
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.config import RunConfig


# Who watches sees another text about once a second, up to so many of them, and this share of the time goes into them.
REWRITTEN, MOST_SAMPLES, WATCHED = 1.0, 120, 0.08


class Stopped(Exception):
    """The page does not want it any more."""


class Budget:
    """Measures, chooses, and states the run as a session's request has it. The time begins when `choose` is called."""

    def __init__(self, request: str) -> None:
        asked = json.loads(request)
        self.seconds = float(asked["seconds"])
        self.names = asked.get("presets") or sizes()
        self.stated = asked.get("changes") or {}
        self.hardness = asked.get("hardness")
        self.machine = TabMachine(asked.get("device"))
        self.train_bytes = train_bytes(asked["bytes"], self.stated.get("val_fraction", TrainConfig().val_fraction))
        self.val_bytes = asked["bytes"] - self.train_bytes
        self.worker: Any = None

    def wanted(self) -> str:
        """What is looked at to judge the text, of the training part and of the held-out part."""
        if self.hardness is not None:
            return json.dumps([[], []])
        return json.dumps([places(self.train_bytes, LEARNED), places(self.val_bytes, SCORED)])

    async def choose(self, worker: "Any", train: "Any", val: "Any", pieces: str) -> str:
        """`pieces` are the bytes that are wanted. An event reports every size that was measured."""
        self.worker = self.machine.worker = worker
        began = float(worker.now())
        try:
            if self.hardness is None:
                learned, scored = [[bytes(piece) for piece in part] for part in json.loads(pieces)]
                self.hardness = hardness_of(learned, scored)
            text = TextFacts(self.train_bytes, self.hardness)

            async def opened(run: "RunConfig") -> "Any":
                engine = tab_engine(run, self.machine, None)
                await engine.load_corpus(Held(train, self.train_bytes), Held(val, self.val_bytes))
                return engine

            def told(option: Option) -> None:
                worker.emit(json.dumps({"event": "option", "option": option_facts(option, text)}))
                if worker.stopping():
                    raise Stopped

            samples = min(MOST_SAMPLES, int(self.seconds / REWRITTEN))
            length = SampleConfig().tokens
            asked = Asked(text, self.val_bytes, self.names, self.stated, length, samples, WATCHED)
            survey = Survey(asked, opened, worker.now, began + self.seconds, told)
            best = await survey.choose()
        except Stopped:
            return json.dumps({"stopped": True})
        except TinyGPTError as error:
            return json.dumps({"error": in_labels(str(error))})
        return json.dumps({"chosen": option_facts(best, text), "request": request_of(best, text, survey.deadline)})


def request_of(option: Option, text: TextFacts, deadline: float) -> "dict[str, Any]":
    """Of a session: the run by its preset, and what `Timed` needs."""
    usual, chosen = preset(option.preset, RECIPE, text.train_bytes).train.as_dict(), option.run.train.as_dict()
    return {
        "preset": option.preset,
        "recipe": RECIPE,
        "changes": {name: chosen[name] for name in chosen if chosen[name] != usual[name] or name == "warmup"},
        "budget": {
            "deadline": deadline,
            "prediction": list(option.prediction),
            "text": list(text),
            "aside": option.aside,
            "end": option.end,
            "allSteps": option.all_steps,
            "sampled": option.sampled,
            "frame": option.frame,
            "film": option.film,
        },
    }


class Timed:
    """A run that a budget has chosen, in its session."""

    def __init__(self, budget: "dict[str, Any]", name: str, run: "RunConfig") -> None:
        self.deadline = budget["deadline"]
        self.text = TextFacts(*budget["text"])
        prediction = Prediction(*budget["prediction"])
        times = [budget[key] for key in ("aside", "end", "allSteps", "sampled", "frame", "film")]
        self.option = Option(name, run, prediction, None, *times)

    def pace(self, now: float) -> Pace:
        return Pace(now, self.deadline, self.option)

    def verdict(self, run: "RunConfig", reached: float) -> "dict[str, Any]":
        return verdict(self.option, self.text, run, reached)
