"""What a model file's JSON header says of a run, as plain values: the only copy of its spelling.

The original's names are kept where there are any; docs/format.md shows them all. Only the model's shape has to be
there and right. All else decorates a file: what is not understood is left out, and said.
"""

from collections import namedtuple

from tinygpt.core.config import SHAPE, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.edited import EDIT
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.strict_json import json_object, quoted, whole
from tinygpt.core.file.tables import encode_tables, tables_bytes
from tinygpt.core.models.parameters import parameters, total
from tinygpt.core.settings import checked
from tinygpt.core.text import whole_characters
from tinygpt.core.train.progress import LossHistory, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Json = dict[str, Any]

SAMPLE_CHARACTERS = 320
GENERATOR = "philox4x32-10"
OUT_IN = "out_in"  # the layout of linear weights in our files, as in PyTorch
# What a file may keep weights in. int8: matrices as whole numbers with a float32 scale per row, vectors as float32.
DTYPES = ("float32", "float16", "int8")
INT8 = "int8"

NAMED = 5  # of what was left out, so many; the rest is counted
KEY_CHARACTERS = 40  # shown of a name

# The keys that a header may have; a safetensors file's description has the step, too.
RUN_KEYS = (
    "config",
    "lossHistory",
    "finalLoss",
    "bestVal",
    "validation",
    "sample",
    "film",
    "tokensSeen",
    "rng",
    "data",
    "lora",
    "origin",
    "edit",
)
STATE_KEYS = ("manifest", "includesOptimizerState", "slots", "stateByteLength", "layout", "dtype", "sha256", "tables")
KEYS = RUN_KEYS + ("savedAt", "step") + STATE_KEYS

# Everything of a checkpoint but its state. left_out: names of what was not understood.
Run = namedtuple("Run", ("config", "progress", "backend", "data", "saved_at", "lora", "origin", "left_out", "edit"))

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


def encode_run(
    config: RunConfig,
    progress: Progress,
    backend: str,
    data: "Json",
    lora: "Json | None",
    saved_at: str,
    origin: "Json | None" = None,
    edit: str = EDIT,
) -> "Json":
    stated: Json = {
        "config": encode_config(config, backend),
        "lossHistory": [[step, loss] for step, loss in progress.history.points],
        "finalLoss": progress.loss,
        "bestVal": progress.best_val,
        "validation": encode_validation(progress),
        "sample": progress.sample[:SAMPLE_CHARACTERS],
        "film": [list(frame) for frame in progress.film],
        "tokensSeen": progress.tokens_seen,
        "rng": {"generator": GENERATOR, "seed": config.train.seed, "step": progress.step},
        "data": data,
        "lora": lora,
        "origin": origin,
        "savedAt": saved_at,
    }
    if edit:
        stated["edit"] = edit
    return stated


def encode_validation(progress: Progress) -> "Json":
    values: Json = {"bestStep": progress.best_step, "evalsSinceBest": progress.evals_since_best}
    values["due"] = progress.validation_due
    if progress.accuracy is not None:  # the text is a task's
        values.update({"accuracy": progress.accuracy, "bestRight": progress.best_right})
    return values


def is_scaled(shape: "Sequence[int]", dtype: str) -> bool:
    """Whether a tensor is kept as whole numbers with a scale per row."""
    return dtype == INT8 and len(shape) == 2


def stored_bytes(shape: "Sequence[int]", dtype: str) -> int:
    """Of a tensor in a file; what is scaled is padded to whole words."""
    size = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if is_scaled(shape, dtype):
        return 4 * shape[0] + (size + 3) // 4 * 4
    return (2 if dtype == "float16" else 4) * size


def array_bytes(model: ModelConfig, dtype: str) -> int:
    """Of all weights, without a list of them: a stranger's config may name a giant."""
    return total(model, lambda shape: stored_bytes(shape, dtype))


def encode_state(
    model: ModelConfig, slots: "Sequence[str]", digest: str, dtype: str = "float32", stored_rows: int = 0
) -> "Json":
    """What the header says of the state: w and the slots, and so many rows of n-gram tables. floatOffset counts floats
    after the step."""
    arrays = 1 + len(slots)
    entries = []
    for row in parameters(model):
        entries.append({"name": row.name, "shape": list(row.shape), "floatOffset": arrays * row.offset})
    tables = tables_bytes(model, dtype, stored_rows, len(slots) > 0)
    stated = {
        "manifest": entries,
        "includesOptimizerState": len(slots) > 0,
        "slots": list(slots),
        "stateByteLength": 4 + arrays * array_bytes(model, dtype) + tables,
        "layout": OUT_IN,
        "dtype": dtype,
        "sha256": digest,
    }
    stated.update(encode_tables(model, stored_rows))
    return stated


class Decoder:
    """Takes from a header what it understands, and keeps the names of the rest."""

    def __init__(self, header: "Json") -> None:
        self.header = header
        self.left_out: list[str] = []

    def understood(self, name: str, value: "Any", read: "Callable[[Any], Any]", default: "Any" = None) -> "Any":
        """What `read` makes of a value that is there; it returns None for what it does not understand."""
        if value is None:
            return default
        result = read(value)
        if result is None:
            self.left_out.append(name)
            return default
        return result

    def top(self, key: str, read: "Callable[[Any], Any]", default: "Any" = None) -> "Any":
        return self.understood(key, self.header.get(key), read, default)

    def config(self) -> RunConfig:
        stated = json_object(self.header.get("config"), "config")
        model_values = {}
        for field in ModelConfig.FIELDS:
            value = stated.get(config_key(field.name))
            if value is not None:
                model_values[field.name] = value
            elif field.name in SHAPE:
                raise TinyGPTError(f"config has no '{config_key(field.name)}'")
        model = ModelConfig(**model_values)
        if stated.get("dMlp") not in (None, model.d_mlp):
            raise TinyGPTError(f"config.dMlp must be {model.d_mlp} for this model, not {quoted(stated['dMlp'])}")
        train_values = {}
        for field in TrainConfig.FIELDS:
            key = config_key(field.name)
            value = self.understood(f"config.{key}", stated.get(key), setting_reader(field))
            if value is not None:
                train_values[field.name] = value
        return RunConfig(model, TrainConfig(**train_values))

    def progress(self, state_step: int) -> Progress:
        validation = self.top("validation", as_object, {})
        final, best = self.header.get("finalLoss"), self.header.get("bestVal")
        progress = Progress()
        progress.step = state_step
        progress.tokens_seen = self.top("tokensSeen", as_count, 0)
        progress.loss = self.understood("finalLoss", member(final, "train"), as_loss)
        progress.best_val = self.understood("bestVal", member(best, "loss"), as_loss)
        best_step = best.get("step") if isinstance(best, dict) else validation.get("bestStep")
        progress.best_step = self.understood("the step of bestVal", best_step, as_count, 0)
        evals = validation.get("evalsSinceBest")
        progress.evals_since_best = self.understood("validation.evalsSinceBest", evals, as_count, 0)
        progress.validation_due = validation.get("due") is True
        progress.accuracy = self.understood("validation.accuracy", validation.get("accuracy"), as_loss)
        progress.best_right = self.understood("validation.bestRight", validation.get("bestRight"), as_count)
        progress.history = LossHistory(self.history(state_step))
        progress.sample = self.top("sample", as_text, "")
        progress.film = self.film(state_step)
        return progress

    def film(self, last_step: int) -> "list[list[Any]]":
        frames: list[list[Any]] = []
        stated = self.top("film", as_list, [])
        for frame in stated:
            step, text = frame if isinstance(frame, list) and len(frame) == 2 else (None, None)
            step, text = as_count(step), as_text(text)
            if step is not None and text is not None and (frames[-1][0] if frames else -1) < step <= last_step:
                frames.append([step, text])
        if len(frames) < len(stated):
            self.left_out.append(f"{len(stated) - len(frames)} of {len(stated)} frames of film")
        return frames

    def history(self, last_step: int) -> list[tuple[int, float]]:
        """Points as [step, loss], as {"step", "train" or "loss"}, or as bare losses spread over the run."""
        stated = self.top("lossHistory", as_list, [])
        points: list[tuple[int, float]] = []
        strange = 0
        for index in range(len(stated)):
            step, loss = point_of(stated[index], spread_step(index, len(stated), last_step))
            rising = as_count(step) is not None and (not points or step > points[-1][0])
            if rising and as_loss(loss) is not None:
                points.append((step, float(loss)))
            elif not rising or loss is not None:  # no loss: it was not finite
                strange += 1
        if strange:
            self.left_out.append(f"{strange} of {len(stated)} points of lossHistory")
        return points

    def unknown_keys(self) -> None:
        known = [config_key(field.name) for field in ModelConfig.FIELDS + TrainConfig.FIELDS] + ["dMlp", "backend"]
        unknown = [key for key in self.header if key not in KEYS]
        unknown += [f"config.{key}" for key in self.header["config"] if key not in known]
        self.left_out += [whole_characters(key[:KEY_CHARACTERS]) for key in sorted(unknown)]


def decode_run(header: "Json", state_step: int) -> Run:
    decoder = Decoder(header)
    config = decoder.config()
    decoder.unknown_keys()
    return Run(
        config=config,
        progress=decoder.progress(state_step),
        backend=decoder.understood("config.backend", header["config"].get("backend"), as_text, ""),
        data=decoder.top("data", as_object, {}),
        saved_at=decoder.top("savedAt", as_text, ""),
        lora=decoder.top("lora", as_object),
        origin=decoder.top("origin", as_object),
        left_out=decoder.left_out,
        edit=decoder.top("edit", as_text, ""),
    )


def a_few(names: "Sequence[str]") -> str:
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest


def left_out_sentence(names: "Sequence[str]") -> str:
    """What to tell of what was not understood; nothing where all was."""
    return f"What could not be understood was left out: {a_few(names)}." if names else ""


def setting_reader(field: "Any") -> "Callable[[Any], Any]":
    def read(value: "Any") -> "Any":
        try:
            return checked("train", field, value)
        except TinyGPTError:
            return None

    return read


def member(value: "Any", key: str) -> "Any":
    """The original keeps a loss within an object, ours is bare."""
    return value.get(key) if isinstance(value, dict) else value


def point_of(point: "Any", step: int) -> "tuple[Any, Any]":
    """Step and loss as stated; `step` is that of a bare loss. What is neither is a point without a step."""
    if isinstance(point, list):
        return (point[0], point[1]) if len(point) == 2 else (None, None)
    if isinstance(point, dict):
        return point.get("step"), point.get("train", point.get("loss"))
    return step, point


def spread_step(index: int, count: int, last_step: int) -> int:
    if count >= last_step or count < 2:
        return index + 1
    return 1 + round(index * (last_step - 1) / (count - 1))


def as_object(value: "Any") -> "Json | None":
    return value if isinstance(value, dict) else None


def as_list(value: "Any") -> "list[Any] | None":
    return value if isinstance(value, list) else None


def as_text(value: "Any") -> str | None:
    """As long as a sample may be. (A character may be two, to begin with.)"""
    if not isinstance(value, str):
        return None
    return whole_characters(value[: 2 * SAMPLE_CHARACTERS])[:SAMPLE_CHARACTERS]


def as_count(value: "Any") -> int | None:
    try:
        return whole(value, "it")
    except TinyGPTError:
        return None


def as_loss(value: "Any") -> float | None:
    """A number that is one: bool is an int in CPython."""
    if value is True or value is False or not isinstance(value, (int, float)):
        return None
    return float(value) if value - value == 0 else None
