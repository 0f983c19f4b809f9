"""What a model file's JSON header says of a run, as plain values: the only copy of its spelling.

The original's names are kept where there are any; docs/format.md shows them all.
"""

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.core.progress import LossHistory, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

SAMPLE_CHARACTERS = 320
GENERATOR = "philox4x32-10"
OUT_IN = "out_in"  # the layout of linear weights in our files, as in PyTorch

# Where the original's spelling is not the camelCase of ours.
ORIGINAL_KEYS = {"batch": "batchSize", "lr": "learningRate", "steps": "maxSteps"}


def config_key(name: str) -> str:
    if name in ORIGINAL_KEYS:
        return ORIGINAL_KEYS[name]
    parts = name.split("_")
    return parts[0] + "".join([part[0].upper() + part[1:] for part in parts[1:]])


def encode_config(config: RunConfig, backend: str) -> "Json":
    values = config.model.as_dict()
    values["d_mlp"] = config.model.d_mlp
    values.update(config.train.as_dict())
    values["backend"] = backend
    return {config_key(name): values[name] for name in values}


def decode_config(stated: "Json") -> RunConfig:
    """The model's settings are required; a missing training setting takes its default."""
    model_values = {}
    for field in ModelConfig.FIELDS:
        key = config_key(field.name)
        if stated.get(key) is None:
            raise TinyGPTError(f"config has no '{key}'")
        model_values[field.name] = stated[key]
    train_values = {}
    for field in TrainConfig.FIELDS:
        value = stated.get(config_key(field.name))
        if value is not None:
            train_values[field.name] = value
    model = ModelConfig(**model_values)
    stated_mlp = stated.get("dMlp")
    if stated_mlp is not None and stated_mlp != model.d_mlp:
        raise TinyGPTError(f"config.dMlp must be 4 * dModel = {model.d_mlp}, not {stated_mlp!r}")
    return RunConfig(model, TrainConfig(**train_values))


def encode_run(
    config: RunConfig, progress: Progress, backend: str, data: "Json", lora: "Json | None", saved_at: str
) -> "Json":
    return {
        "config": encode_config(config, backend),
        "lossHistory": [[step, loss] for step, loss in progress.history.points],
        "finalLoss": progress.loss,
        "bestVal": progress.best_val,
        "validation": {"bestStep": progress.best_step, "evalsSinceBest": progress.evals_since_best},
        "sample": progress.sample[:SAMPLE_CHARACTERS],
        "tokensSeen": progress.tokens_seen,
        "rng": {"generator": GENERATOR, "seed": config.train.seed, "step": progress.step},
        "data": data,
        "lora": lora,
        "savedAt": saved_at,
    }


def encode_state(model: ModelConfig, arrays: int, digest: str) -> "Json":
    """What stands in the header of the state: `arrays` is 3 (w, m, v) or 1 (w); floatOffset counts floats behind
    the step."""
    every = parameters(model)
    floats = arrays * (every[-1].offset + every[-1].size)
    return {
        "manifest": [{"name": row.name, "shape": list(row.shape), "floatOffset": arrays * row.offset} for row in every],
        "includesOptimizerState": arrays == 3,
        "stateByteLength": 4 + 4 * floats,
        "layout": OUT_IN,
        "dtype": "float32",
        "sha256": digest,
    }


def progress_of(header: "Json", state_step: int) -> Progress:
    """Where the run of one of our own files stands. (formats/header.py reads files of any origin.)"""
    progress = Progress()
    validation = header.get("validation") or {}
    progress.step = state_step
    progress.tokens_seen = header.get("tokensSeen") or 0
    progress.loss = header.get("finalLoss")
    progress.best_val = header.get("bestVal")
    progress.best_step = validation.get("bestStep") or 0
    progress.evals_since_best = validation.get("evalsSinceBest") or 0
    points = [point for point in header.get("lossHistory") or [] if isinstance(point, list) and len(point) == 2]
    progress.history = LossHistory([(point[0], point[1]) for point in points])
    progress.sample = header.get("sample") or ""
    return progress
