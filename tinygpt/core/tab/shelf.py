"""What a browser tab keeps of a run: when, in which slot, which snapshots stay, and what the library says of it.

A run has a folder, which web/src/storage/shelf.ts writes and reads:

    meta.0.json, meta.1.json            its title, date and text; written by turns
    model.0.tinygpt, model.1.tinygpt    checkpoints, written by turns, each with its record (.json)
    step-500.tinygpt                    a snapshot, with its record
    events.jsonl                        core's events; a record says how many bytes of it are of its steps

What a run of adapters stands on lies outside of it, under the sha256 of its weights, as texts do under theirs.

A record is emptied before its file is touched and written after it, so whatever ends the tab at whatever instant, a
record that can be read belongs to a whole file, but for a disk's own faults, which length and digest find out.
What crosses is JSON, as in session.py; records come as the texts that were found, null where there is none.
"""

import json

from tinygpt.core.config import LoraConfig, ModelConfig, TrainConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.run.progress import Progress

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
VALIDATIONS = 256  # of the curve that the library draws


def read(text: "str | None") -> "Json | None":
    """A record or a meta; None where it was not written to its end."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and "sequence" in found else None


def newest_first(texts: "list[str | None]") -> list[int]:
    """The slots whose record is whole."""
    found = [(record["sequence"], slot) for slot, record in enumerate([read(text) for text in texts]) if record]
    return [slot for _, slot in sorted(found, reverse=True)]


def next_slot(texts: "list[str | None]") -> tuple[int, int]:
    """The slot to write, which is never the newest sound one, and its sequence number."""
    order = newest_first(texts)
    if not order:
        return 0, 1
    record = read(texts[order[0]]) or {}
    return 1 - order[0], record["sequence"] + 1


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

    def __init__(self, found: "Json", state_bytes: int, steps: int) -> None:
        self.texts = list(found["records"])
        self.able = state_bytes <= KEEP_LARGEST
        self.most = min(SNAPSHOTS, SNAPSHOT_BYTES // max(1, state_bytes)) if found["durable"] else 0
        self.snapshots = sorted([record["step"] for record in map(read, found["snapshots"]) if record])
        self.first = max(1, steps // FIRST_SNAPSHOT)
        order = newest_first(self.texts)
        newest = (read(self.texts[order[0]]) or {}) if order else {}
        self.step: int | None = newest.get("step")  # of the newest checkpoint
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
        if not self.able or now < self.rested or not (now >= self.at or self.wants_snapshot(step)):
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
        return self.most > 0 and step >= (2 * self.snapshots[-1] if self.snapshots else self.first)

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
        record["history"] = [list(point) for point in progress.history.points]
        record["validations"] = [point for point in self.validations if point[0] <= step]
        record["sample"] = progress.sample
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


def facts(request: str) -> str:
    """Of {"id", "meta", "records", "snapshots", "bytes"}: what the library shows of a run; null: there is none."""
    found = json.loads(request)
    order, metas = newest_first(found["records"]), newest_first(found["meta"])
    if not order or not metas:
        return "null"
    meta, record = read(found["meta"][metas[0]]) or {}, read(found["records"][order[0]]) or {}
    stops = [record] + [snapshot for snapshot in map(read, found["snapshots"]) if snapshot]
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
            "loss": record["loss"],
            "best": record["best"],
            "config": record["config"],
            "parameters": record["parameters"],
            "engine": record["engine"],
            "history": record["history"],
            "validations": record["validations"],
            "stops": [{"step": step, "loss": by_step[step]["loss"]} for step in sorted(by_step)],
            "bytes": found["bytes"],
        }
    )


def differences(configs: str) -> str:
    """Of configs: [label, [value of each]] for every setting in which they differ."""
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
