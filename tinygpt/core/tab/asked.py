"""What the page asks for, as settings of a run: a new model, one that goes on, or adapters beside one that stays."""

import json

from tinygpt.core.config import LoraConfig, RunConfig, TrainConfig, run_config_of
from tinygpt.core.corpus import train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import projections_of, trained_count
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import EXERCISES, adapting, cut_short, preset
from tinygpt.core.tasks import is_task
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


def run_of(asked: "Json", config: "Json | None", lora: "Json | None") -> RunConfig:
    """Of {"preset", "recipe", "changes", "bytes"}, the bytes being those of the text.

    `config` is that of a model that goes on or, with `lora`, stays as it is.
    """
    changes = asked["changes"]
    if config is None:
        held_out = changes.get("val_fraction", TrainConfig().val_fraction)
        training = None if asked["bytes"] is None else train_bytes(asked["bytes"], held_out)
        if is_task(asked.get("textName", "")):
            training = EXERCISES
        return cut_short(preset(asked["preset"], asked["recipe"], training), changes)
    before = run_config_of(config)
    if lora is None:
        return before.going_on(**changes)
    held_out = changes.get("val_fraction", TrainConfig().val_fraction)
    run = taught(before, lora, train_bytes(asked["bytes"], held_out))
    changed = run.replace(**changes)
    run.model.going_on(**changed.model.as_dict())
    return changed


def taught(base: RunConfig, lora: "Json", training: "int | None") -> RunConfig:
    """Adapters as they usually are, on a model that has none, for so many bytes to learn from."""
    if base.lora is not None:
        raise TinyGPTError("this model has an adapter already; save the two merged, load that file, and teach that")
    return adapting(base, LoraConfig(**lora), training)


def teaching(request: str) -> str:
    """What can be chosen for adapters of a model, and what that comes to."""
    asked = json.loads(request)
    base = run_config_of(asked["config"])
    training = train_bytes(asked["bytes"], TrainConfig().val_fraction)
    told = {"usual": taught(base, {}, training).as_dict(), "projections": projections_of(base.model), "trained": 0}
    told.update({"frozen": parameter_count(base.model), "problem": ""})
    try:
        told["trained"] = trained_count(taught(base, asked["lora"], training))
    except TinyGPTError as error:
        told["problem"] = in_labels(str(error))
    return json.dumps(told)
