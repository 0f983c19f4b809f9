"""What a browser tab keeps of a run: when, in which slot, which snapshots stay, and what the library says of it.

A run has a folder, which web/src/storage/shelf.ts writes and reads:

    meta.0.json, meta.1.json            its title, date and text; two copies, written one after the other
    model.0.tinygpt, model.1.tinygpt    checkpoints, written by turns, each with its record (.json)
    step-500.tinygpt                    a snapshot, with its record
    events.jsonl                        core's events; a record says how many bytes of it are of its steps

What a run of adapters stands on lies outside of it, under the sha256 of its weights, as texts do under theirs.

A record is emptied before its file is touched and written after it, so whatever ends the tab at whatever instant, a
record that can be read belongs to a whole file, but for a disk's own faults, which length and digest find out.

Such faults cost no more than they must: a checkpoint that cannot be read gives way to the other one, that to the
newest snapshot, and that to the weights of any of them alone, which a digest of their own proves. The log is optional.
Whatever cannot be read stays where it is until the user deletes it.

Records come as the texts that were found, null where there is none.
"""

import json

from tinygpt.core.config import LoraConfig, ModelConfig, TrainConfig, run_config_of
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import encode_run, encode_state
from tinygpt.core.file.tables import bitmap_bytes, row_bytes
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.optimizers import slot_names
from tinygpt.core.train.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.config import RunConfig

    Json = dict[str, Any]

# A state is kept this often (in seconds), and never for more than a twentieth of the time. One that is larger than
# this many bytes is not.
KEEP_FIRST = 3.0
KEEP_EVERY = 10.0
KEEP_SHARE = 20
KEEP_LARGEST = 2**30

# Snapshots stand at steps that double, so many of a run and so many bytes of them at most.
SNAPSHOTS = 8
SNAPSHOT_BYTES = 2**28
FIRST_SNAPSHOT = 128  # at this part of the run
# Of a model whose state has at most so many bytes they also stand at every `keep_every` steps, however soon those come.
SNAPSHOT_ANYWAY = 2**25
VALIDATIONS = 256  # of the curve that the library draws


# What the library and a run that continues need to find in a meta and in a record, and of which type it is.
META = (("title", str), ("created", str), ("text", dict))
TEXT = (("sha256", str), ("bytes", int), ("name", str))
RECORD = (("step", int), ("savedAt", str), ("config", dict), ("parameters", int), ("engine", str))
CURVES = (("history", list), ("validations", list))


def has(found: "Any", fields: "tuple[tuple[str, Any], ...]") -> bool:
    return isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in fields)


def read(text: "str | None") -> "Json | None":
    """A record or a meta; None where it was not written to its end."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if has(found, (("sequence", int),)) else None


def read_meta(text: "str | None") -> "Json | None":
    found = read(text)
    return found if found and has(found, META) and has(found["text"], TEXT) else None


def read_record(text: "str | None") -> "Json | None":
    """One that says all that the library shows."""
    found = read(text)
    if not found or not has(found, RECORD + CURVES) or not has(found["config"], (("model", dict), ("train", dict))):
        return None
    known = isinstance(found["config"]["train"].get("steps"), int)
    return found if known and "loss" in found and "best" in found else None


def newest_first(texts: "list[str | None]") -> list[int]:
    """The slots whose record is whole. One whose file was found damaged has another: {"sequence", "damaged"}."""
    records = [(slot, read(text)) for slot, text in enumerate(texts)]
    found = [(record["sequence"], slot) for slot, record in records if record and has(record, (("step", int),))]
    return [slot for _, slot in sorted(found, reverse=True)]


def next_slot(texts: "list[str | None]") -> tuple[int, int]:
    """The slot to write, which is never the newest sound one, and its sequence number."""
    order = newest_first(texts)
    return (1 - order[0] if order else 0), next_sequence(texts)


def next_sequence(texts: "list[str | None]") -> int:
    last: int = max([record["sequence"] for record in map(read, texts) if record] or [0])
    return last + 1


def thinned(steps: list[int], most: int) -> list[int]:
    """So many of the steps, the first and the last among them: those go whose neighbours are nearest, as a ratio."""
    left = sorted(steps)
    while len(left) > most:
        gaps = [left[i + 1] / left[i - 1] for i in range(1, len(left) - 1)]
        del left[1 + gaps.index(min(gaps)) if gaps else 0]
    return left


class Keeping:
    """When and where the states of one run are kept.

    `found`: what its folder holds, as {"records", "snapshots", "durable"}; a run that begins has an empty one.
    """

    def __init__(self, found: "Json", state_bytes: int, steps: int, every: int = 0) -> None:
        self.texts = list(found["records"])
        self.able = state_bytes <= KEEP_LARGEST
        self.most = min(SNAPSHOTS, SNAPSHOT_BYTES // max(1, state_bytes)) if found["durable"] else 0
        snapshots = [record for record in map(read, found["snapshots"]) if has(record, (("step", int),))]
        self.snapshots = sorted([record["step"] for record in snapshots if record])
        self.first = max(1, steps // FIRST_SNAPSHOT)
        self.every = every if state_bytes <= SNAPSHOT_ANYWAY else 0
        order = newest_first(self.texts)
        newest = (read(self.texts[order[0]]) or {}) if order else {}
        self.step: int | None = newest["step"] if has(newest, (("step", int),)) else None  # of the newest checkpoint
        self.validations: list[list[float]] = newest.get("validations") or []
        self.devices: list[str] = newest.get("devices") or []  # that computed it so far, in words
        self.began = self.at = self.rested = 0.0

    def begin(self, now: float) -> None:
        self.at = now + KEEP_FIRST

    def hurry(self) -> None:
        """The tab may be gone soon."""
        self.at = self.rested

    def soon(self, now: float) -> bool:
        """Whether a state will be due at the next pause."""
        return self.able and now >= max(self.rested, self.at)

    def due(self, now: float, step: int) -> bool:
        if not self.able:
            return False
        if not self.is_asked(step) and (now < self.rested or not (now >= self.at or self.wants_snapshot(step))):
            return False
        self.began = now
        return True

    def advice(self) -> "list[str]":
        """On a run that is not kept on its way."""
        if self.able:
            return []
        return [
            f"The state of this model has more than {KEEP_LARGEST / 2**30:g} GiB, which the page does not keep while "
            f"it trains: until you save it to a file, it is lost with this tab."
        ]

    def wants_snapshot(self, step: int) -> bool:
        return self.is_asked(step) or (
            self.most > 0 and step >= (2 * self.snapshots[-1] if self.snapshots else self.first)
        )

    def is_asked(self, step: int) -> bool:
        """Whether the run's settings want a snapshot there, and it has none."""
        return self.most > 0 and self.every > 0 and step % self.every == 0 and step not in self.snapshots

    def validated(self, step: int, loss: float) -> None:
        self.validations = [point for point in self.validations if point[0] < step]
        self.validations.append([step, loss])
        if len(self.validations) > VALIDATIONS:
            self.validations = self.validations[1::2]

    def order(self, progress: "Progress", facts: "Json") -> "Json":
        """What is to be written now. `kept` hears how it went."""
        slot, sequence = next_slot(self.texts)
        step = progress.step
        record: Json = {"sequence": sequence, "step": step, "loss": progress.loss, "best": progress.best_val}
        record["tokens"] = progress.tokens_seen
        record["history"] = [list(point) for point in progress.history.points]
        record["validations"] = [point for point in self.validations if point[0] <= step]
        record["sample"], record["film"] = progress.sample, [list(frame) for frame in progress.film]
        record.update(facts)
        stay = self.snapshots
        if self.wants_snapshot(step):
            stay = thinned(self.snapshots + [step], self.most)
        dropped = [old for old in self.snapshots if old not in stay]
        return {"slot": slot, "record": record, "snapshot": stay != self.snapshots, "drop": dropped}

    def kept(self, now: float, order: "Json") -> None:
        self.rest(now)
        record = order["record"]
        self.texts[order["slot"]] = json.dumps({"sequence": record["sequence"], "step": record["step"]})
        self.step = record["step"]
        if order["snapshot"]:
            self.snapshots = [old for old in self.snapshots if old not in order["drop"]] + [record["step"]]

    def failed(self, now: float, order: "Json") -> None:
        self.rest(now)
        self.texts[order["slot"]] = None  # its record was emptied first

    def rest(self, now: float) -> None:
        took = KEEP_SHARE * max(0.0, now - self.began)
        self.rested = now + took
        self.at = now + max(KEEP_EVERY, took)


def problem_text(name: str, message: str, step: "int | None") -> str:
    """On a state that could not be kept, for the error that the browser named."""
    left = "nothing of this run is kept yet" if step is None else f"the model as of step {step:,} stays kept"
    if name == "QuotaExceededError":
        return (
            f"The browser's storage is full: {left}, and training goes on. "
            f"Delete runs in the library, or save the model to a file."
        )
    return f"The model could not be kept in this browser ({message}): {left}, and training goes on. Save it to a file."


def order_of(records: str) -> str:
    """The slots to read, in their order."""
    return json.dumps(newest_first(json.loads(records)))


def next_of(records: str) -> str:
    """The slot to write and its sequence number."""
    return json.dumps(next_slot(json.loads(records)))


def meta_of(metas: str) -> str:
    """The slot of the newest copy of a meta; null where none is whole."""
    return json.dumps(newest_meta(json.loads(metas)))


def newest_meta(texts: "list[str | None]") -> "int | None":
    whole = [(meta["sequence"], slot) for slot, meta in enumerate(map(read_meta, texts)) if meta]
    return max(whole)[1] if whole else None


def meta_in(found: "Json") -> "Json | None":
    slot = newest_meta(found["meta"])
    return None if slot is None else read_meta(found["meta"][slot])


def copies_of(metas: str) -> str:
    """The slots that a new meta is written to, in their order, and its sequence number: whenever the tab dies, one copy
    is whole."""
    texts = json.loads(metas)
    first = 0 if newest_meta(texts) == 1 else 1
    return json.dumps([[first, 1 - first], next_sequence(texts)])


def stops_of(found: "Json") -> "list[Json]":
    """The records that can be read: of the newest checkpoint, then of snapshots, the last one first."""
    slots = [read_record(found["records"][slot]) for slot in newest_first(found["records"])]
    snapshots = [record for record in map(read_record, found["snapshots"]) if record]
    return [record for record in slots if record][:1] + sorted(snapshots, key=lambda record: -record["step"])


def facts(request: str) -> str:
    """What the library shows of a run; null: see `damage`."""
    found = json.loads(request)
    meta, stops = meta_in(found), stops_of(found)
    if meta is None or not stops:
        return "null"
    record = stops[0]
    by_step = {stop["step"]: stop for stop in stops}
    return json.dumps(
        {
            "id": found["id"],
            "title": meta["title"],
            "created": meta["created"],
            "forked": meta.get("forked"),
            "base": meta.get("base"),
            "text": meta["text"],
            "savedAt": record["savedAt"],
            "step": record["step"],
            "steps": record["config"]["train"]["steps"],
            "loss": stated_loss(record),
            "best": record["best"],
            "config": record["config"],
            "parameters": record["parameters"],
            "engine": record["engine"],
            "history": record["history"],
            "validations": record["validations"],
            "sample": sample_of(record),
            "stops": [{"step": step, "loss": stated_loss(by_step[step])} for step in sorted(by_step)],
            "bytes": found["bytes"],
        }
    )


def stated_loss(record: "Json") -> "float | None":
    """What the page states while it trains, which is smoothed; older records have the last step's alone."""
    smooth = record.get("smooth")
    loss: float | None = smooth if isinstance(smooth, (int, float)) else record["loss"]
    return loss


def sample_of(record: "Json") -> str:
    """What the run wrote last; older records do not say."""
    film = record.get("film") or []
    last = film[-1][-1] if isinstance(film, list) and film and isinstance(film[-1], list) and film[-1] else ""
    for sample in (record.get("sample"), last):
        if isinstance(sample, str) and sample:
            return sample
    return ""


def damage(request: str) -> str:
    """What to say of a run that has no `facts`."""
    found = json.loads(request)
    meta, stops = meta_in(found), stops_of(found)
    models = [name for name in found["files"] if name.endswith(".tinygpt")]
    if not models:
        text = "It ended before its first checkpoint was written: there is no model to save."
    elif not stops:
        text = "The records of its checkpoints cannot be read. A model that is whole can still be opened."
    else:
        text = "Its title and the name of its text cannot be read. Its model can be opened, and trained on any text."
    return json.dumps({"title": meta and meta["title"], "text": text, "model": len(models) > 0})


def weight_pieces(config: "RunConfig") -> "Json | None":
    """Where the weights are in a checkpoint, whose state ends with `bytes` and what is stored of n-gram tables, as
    [start, length] in the model's order. None: of adapters, which are small and have no file of weights alone."""
    if config.lora is not None:
        return None
    arrays = 1 + len(slot_names(config.train))
    pieces = [[4 * arrays * row.offset, 4 * row.size] for row in parameters(config.model)]
    where: Json = {"bytes": 4 * arrays * parameter_count(config.model), "pieces": pieces, "tables": None}
    if config.model.ngram_tables:
        row = row_bytes(config.model, "float32")
        where["tables"] = {"bitmap": bitmap_bytes(config.model), "row": row, "square": 4 if arrays > 1 else 0}
    return where


def salvage(record: str) -> str:
    """How to make a file of the weights alone out of a damaged checkpoint; null where its record does not tell."""
    found = read_record(record)
    if not found or not isinstance(found.get("weights"), str):
        return "null"
    try:
        config, progress = run_config_of(found["config"]), Progress.from_dict(found)
    except (TinyGPTError, TypeError, ValueError):
        return "null"
    where = weight_pieces(config)
    if where is None:
        return "null"
    progress.best_val, progress.tokens_seen = found["best"], found.get("tokens") or 0
    header = encode_run(config, progress, found["engine"], {}, None, "")
    rows = found.get("rows") or 0
    header.update(encode_state(config.model, (), "", stored_rows=rows))
    where.update({"step": found["step"], "rows": rows, "sha256": found["weights"], "header": header})
    return json.dumps(where)


def recovered(request: str) -> str:
    """What was lost, in a sentence, or nothing. `step` and `kind` are of the model that could be read: a checkpoint in
    a slot, a snapshot, a file whose record is lost, or weights alone; `newest` is the step of the newest one that there
    was, null where that is not known; `log` says whether that is whole."""
    found = json.loads(request)
    step, newest, kind = found["step"], found["newest"], found["kind"]
    said = []
    if newest is not None and newest > step:
        said.append(f"The checkpoint of step {newest:,} is damaged: this is step {step:,}.")
    if kind == "weights":
        said.append(
            f"The state of its optimizer is damaged: these are the weights of step {step:,} alone, and the loss may "
            f"rise for some steps before it falls again."
        )
    if not found["log"]:
        said.append("Its log is damaged: some steps are missing in the curve.")
    return " ".join(said)


def differences(configs: str) -> str:
    """Every setting in which configs differ, with the value of each."""
    all_ = json.loads(configs)
    rows = []
    for section in (ModelConfig, LoraConfig, TrainConfig):
        for field in section.FIELDS:
            values = [setting(config, section, field) for config in all_]
            if values != [values[0]] * len(values):
                rows.append([field.label, values])
    return json.dumps(rows)


def setting(config: "Json", section: "Any", field: "Any") -> "Any":
    """Its default where a config is older than it; of adapters there may be none."""
    stated = config.get(section.SECTION)
    return "none" if stated is None else stated.get(field.name, field.default)
