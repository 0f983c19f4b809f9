"""The run's description in a model file: config and progress as JSON, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

from tinygpt.core import header as spelling
from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.header import SAMPLE_CHARACTERS
from tinygpt.core.progress import LossHistory, Progress
from tinygpt.engines.base import State
from tinygpt.formats.checkpoint import Checkpoint
from tinygpt.formats.strict_json import Json, free_form, json_object, number_or_none, text, whole

LARGEST_STEP = 2**31 - 1


class Run(NamedTuple):
    """Everything of a checkpoint but its state."""

    config: RunConfig
    progress: Progress
    backend: str
    data: Json
    saved_at: str
    lora: Json | None

    def with_state(self, state: State) -> Checkpoint:
        return Checkpoint(state=state, **self._asdict())


def decode_config(config: Any) -> RunConfig:
    return spelling.decode_config(json_object(config, "config"))


def encode_run(checkpoint: Checkpoint) -> Json:
    c = checkpoint
    return spelling.encode_run(c.config, c.progress, c.backend, c.data, c.lora, c.saved_at)


def decode_run(header: Json, state_step: int) -> Run:
    lora = header.get("lora")
    return Run(
        config=decode_config(header.get("config")),
        progress=decode_progress(header, state_step),
        backend=optional_text(header["config"], "backend"),
        data=free_form(optional_object(header, "data"), "data"),
        saved_at=optional_text(header, "savedAt"),
        lora=None if lora is None else free_form(lora, "lora"),
    )


def decode_progress(header: Json, state_step: int) -> Progress:
    rng = optional_object(header, "rng")
    validation = optional_object(header, "validation")
    progress = Progress()
    progress.step = optional_whole(rng, "step", state_step)
    progress.tokens_seen = optional_whole(header, "tokensSeen", 0)
    progress.loss = number_or_none(header.get("finalLoss"), "finalLoss")
    progress.best_val = number_or_none(header.get("bestVal"), "bestVal")
    progress.best_step = optional_whole(validation, "bestStep", 0)
    progress.evals_since_best = optional_whole(validation, "evalsSinceBest", 0)
    progress.history = LossHistory(decode_history(header.get("lossHistory"), state_step))
    progress.sample = optional_text(header, "sample")[:SAMPLE_CHARACTERS]
    return progress


def decode_history(history: Any, last_step: int) -> list[tuple[int, float]]:
    """Points as [step, loss], as {"step", "loss"}, or as bare losses spread over the run."""
    if history is None:
        return []
    if not isinstance(history, list):
        raise TinyGPTError(f"lossHistory must be a list, not {history!r}")
    points = []
    for index, point in enumerate(history):
        step: Any = spread_step(index, len(history), last_step)
        loss = point
        if isinstance(point, list):
            if len(point) != 2:
                raise TinyGPTError(f"lossHistory[{index}] must be [step, loss], not {point!r}")
            step, loss = point
        elif isinstance(point, dict):
            step, loss = point.get("step"), point.get("loss")
        value = number_or_none(loss, f"the loss of lossHistory[{index}]")
        step = whole(step, f"the step of lossHistory[{index}]", high=LARGEST_STEP)
        points.append((step, float("nan") if value is None else value))
    return points


def spread_step(index: int, count: int, last_step: int) -> int:
    if count >= last_step or count < 2:
        return index + 1
    return 1 + round(index * (last_step - 1) / (count - 1))


def optional_text(values: Json, key: str) -> str:
    value = values.get(key)
    return "" if value is None else text(value, key)


def optional_object(values: Json, key: str) -> Json:
    value = values.get(key)
    return {} if value is None else json_object(value, key)


def optional_whole(values: Json, key: str, default: int) -> int:
    value = values.get(key)
    return default if value is None else whole(value, key)
