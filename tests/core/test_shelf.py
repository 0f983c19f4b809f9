"""What a tab keeps of a run: by turns, in time, thinned out; and what it finds after a crash at any instant."""

import json
from itertools import pairwise

import pytest

from tinygpt.core.config import LoraConfig, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.tab import shelf
from tinygpt.core.tab.shelf import (
    KEEP_EVERY,
    KEEP_FIRST,
    KEEP_LARGEST,
    KEEP_SHARE,
    SNAPSHOT_ANYWAY,
    SNAPSHOT_BYTES,
    SNAPSHOTS,
    Keeping,
)
from tinygpt.core.train.progress import Progress

EMPTY = {"records": [None, None], "snapshots": [], "durable": True}
META = {"sequence": 1, "title": "first", "created": "then", "text": {"sha256": "0a", "bytes": 5, "name": "a text"}}
FACTS = {"config": RunConfig(ModelConfig(), TrainConfig()).as_dict(), "parameters": 5, "engine": "wasm"}


def at(step: int) -> Progress:
    progress = Progress()
    progress.step, progress.loss = step, 5.0 - step / 1000
    return progress


class Disk:
    """A folder's files. A write may end with the tab at any of its instants, as shelf.ts does them."""

    def __init__(self):
        self.records: list[str | None] = [None, None]
        self.models: list[int | None] = [None, None]
        self.snapshots: dict[int, str | None] = {}

    def write(self, order, dies_at=99):
        slot, text = order["slot"], json.dumps({**order["record"], "savedAt": "now"})

        def empty():
            self.records[slot] = ""

        def tear():
            self.models[slot] = None

        def put():
            self.models[slot] = order["record"]["step"]

        def half():
            self.records[slot] = text[: len(text) // 2]

        def seal():
            self.records[slot] = text

        for i, instant in enumerate((empty, tear, put, half, seal)):
            if i == dies_at:
                return
            instant()
        if order["snapshot"]:
            self.snapshots[order["record"]["step"]] = text
        for step in order["drop"]:
            del self.snapshots[step]

    def found(self):
        return {"records": self.records, "snapshots": list(self.snapshots.values()), "durable": True}


@pytest.mark.parametrize("dies_at", range(6))
def test_whenever_the_tab_dies_the_newest_whole_checkpoint_is_found(dies_at):
    disk = Disk()
    for step in (10, 20, 30):
        keeping = Keeping(disk.found(), 100, 1000)  # a tab each
        disk.write(keeping.order(at(step), FACTS))
    keeping = Keeping(disk.found(), 100, 1000)
    disk.write(keeping.order(at(40), FACTS), dies_at)
    slots = json.loads(shelf.order_of(json.dumps(disk.records)))
    written = dies_at == 5
    assert disk.models[slots[0]] == (40 if written else 30)
    assert Keeping(disk.found(), 100, 1000).step == (40 if written else 30)
    assert json.loads(shelf.next_of(json.dumps(disk.records))) == [1 - slots[0], 5 if written else 4]


def test_a_checkpoint_that_failed_is_tried_again_in_the_same_slot():
    disk = Disk()
    keeping = Keeping(disk.found(), 100, 1000)
    for step in (10, 20):
        disk.write(order := keeping.order(at(step), FACTS))
        keeping.kept(0.0, order)
    failed = keeping.order(at(30), FACTS)
    keeping.failed(1.0, failed)
    again = keeping.order(at(40), FACTS)
    assert again["slot"] == failed["slot"] != order["slot"]
    assert keeping.step == 20
    sentence = shelf.problem_text("QuotaExceededError", "", keeping.step)
    assert "storage is full: the model as of step 20 stays kept, and training goes on" in sentence
    assert "nothing of this run is kept yet" in shelf.problem_text("", "why", None)


def test_states_are_kept_by_the_clock_and_for_a_small_share_of_the_time():
    keeping = Keeping({**EMPTY, "durable": False}, 100, 10**6)
    keeping.begin(100.0)
    assert not keeping.due(100.0 + KEEP_FIRST - 0.1, 50)
    for took in (0.1, 2.0):
        now = keeping.at
        assert keeping.due(now, 50)
        keeping.kept(now + took, keeping.order(at(50), FACTS))
        assert keeping.at == now + took + max(KEEP_EVERY, KEEP_SHARE * took)
    keeping.hurry()  # as far as the share goes
    assert not keeping.due(keeping.rested - 0.1, 60) and keeping.due(keeping.rested, 60)
    large = Keeping(EMPTY, KEEP_LARGEST + 1, 10)
    assert not large.due(1e9, 10) and "more than 1 GiB" in large.advice()[0] and not keeping.advice()


def test_snapshots_stand_at_growing_distances():
    disk = Disk()
    steps = 2000
    for goal in (steps, 8 * steps):  # then the run is made longer
        keeping = Keeping(disk.found(), 100, steps)
        for step in range(7, goal, 7):
            if keeping.due(1e9 * step, step):
                disk.write(order := keeping.order(at(step), FACTS))
                keeping.kept(1e9 * step, order)
        stand = sorted(disk.snapshots)
        assert SNAPSHOTS - 1 <= len(stand) <= SNAPSHOTS and stand == keeping.snapshots
        assert stand[0] <= steps // 64 and stand[-1] >= goal // 2
        assert all(2 * a <= b for a, b in pairwise(stand))


@pytest.mark.parametrize(
    "state_bytes, stand", [(100, [7, 80, 160, 240]), (SNAPSHOT_ANYWAY + 1, [7]), (KEEP_LARGEST + 1, [])]
)
def test_a_small_run_has_snapshots_where_its_settings_want_them(state_bytes, stand):
    keeping = Keeping(EMPTY, state_bytes, 320, every=80)
    keeping.kept(1e6, keeping.order(at(7), FACTS))  # no time is left for others
    for step in range(8, 320):
        if keeping.due(1.0, step):
            keeping.kept(1e6, keeping.order(at(step), FACTS))
    assert keeping.snapshots == stand
    memory = Keeping({**EMPTY, "durable": False}, state_bytes, 320, every=80)
    memory.begin(0.0)
    assert not memory.due(0.0, 80)


@pytest.mark.parametrize(
    "found, state_bytes, most", [({**EMPTY, "durable": False}, 1, 0), (EMPTY, SNAPSHOT_BYTES // 3, 3)]
)
def test_snapshots_take_no_more_than_there_is_room_for(found, state_bytes, most):
    keeping = Keeping(found, state_bytes, 1000)
    for step in range(1, 5000):
        order = keeping.order(at(step), FACTS)
        keeping.kept(0.0, order)
    assert len(keeping.snapshots) == most


def test_the_library_is_told_of_whole_runs_only():
    disk = Disk()
    keeping = Keeping(disk.found(), 100, 1000)
    for step in (8, 16, 20):
        keeping.validated(step, 4.0)
        disk.write(order := keeping.order(at(step), FACTS))
        keeping.kept(0.0, order)
    meta = [json.dumps(META), '{"sequence": 2, "ti']
    told = json.loads(shelf.facts(json.dumps({"id": "a", "bytes": 3, "meta": meta, **disk.found()})))
    assert (told["title"], told["step"], told["steps"]) == ("first", 20, TrainConfig().steps)
    assert [stop["step"] for stop in told["stops"]] == [8, 16, 20]
    assert told["validations"] == [[8, 4.0], [16, 4.0], [20, 4.0]]
    for half in ({"meta": [None, None]}, {"records": ["", None], "snapshots": []}):
        assert shelf.facts(json.dumps({"id": "a", "bytes": 3, "meta": meta, **disk.found(), **half})) == "null"


def spoilt(record):
    """One field after the other lost, or of another type."""
    for name in record:
        yield json.dumps({key: value for key, value in record.items() if key != name})
        yield json.dumps({**record, name: [1]})
    yield from ("", "{", "null", "[]", "7", '"text"', "{}", json.dumps(record)[:-1])


def test_whatever_a_record_or_a_meta_says_the_library_has_an_answer():
    disk = Disk()
    keeping = Keeping(disk.found(), 100, 1000)
    for step in (8, 16):
        disk.write(order := keeping.order(at(step), FACTS))
        keeping.kept(0.0, order)
    whole = {"id": "a", "bytes": 3, "files": ["model.0.tinygpt"], "meta": [json.dumps(META)] * 2, **disk.found()}
    records = [json.loads(text) for text in disk.records if text]
    for bad in spoilt(records[1]):  # the newest: the other one is shown, or its fields that are there
        told = json.loads(shelf.facts(json.dumps({**whole, "records": [disk.records[0], bad], "snapshots": [bad]})))
        assert told["step"] in (8, 16) and told["title"] == "first"
        json.loads(shelf.salvage(bad))
        Keeping({**disk.found(), "records": [bad, bad], "snapshots": [bad]}, 100, 1000)
    for bad in spoilt(META):
        told = json.loads(shelf.facts(json.dumps({**whole, "meta": [bad, json.dumps(META)]})))
        assert told["title"] == "first" or told["title"] == json.loads(bad)["title"]
        lost = json.loads(shelf.facts(json.dumps({**whole, "meta": [bad, None]})))
        damage = json.loads(shelf.damage(json.dumps({**whole, "meta": [bad, None]})))
        assert lost is not None or (damage["model"] and "cannot be read" in damage["text"])


def test_a_damaged_run_says_what_can_be_saved_of_it():
    lost = {"id": "a", "bytes": 3, "meta": [json.dumps(META), None], "records": ["", None], "snapshots": []}
    told = [json.loads(shelf.damage(json.dumps({**lost, "files": files}))) for files in ([], ["model.0.tinygpt"])]
    assert [(row["title"], row["model"]) for row in told] == [("first", False), ("first", True)]
    assert "before its first checkpoint" in told[0]["text"] and "can still be opened" in told[1]["text"]


def test_two_copies_of_a_meta_are_written_one_after_the_other():
    assert json.loads(shelf.copies_of(json.dumps([None, None]))) == [[1, 0], 1]
    copies = [json.dumps(META), json.dumps({**META, "sequence": 2, "title": "second"})]
    assert json.loads(shelf.copies_of(json.dumps(copies))) == [[0, 1], 3]
    assert json.loads(shelf.meta_of(json.dumps(copies))) == 1
    assert json.loads(shelf.meta_of(json.dumps([copies[0], copies[1][:-5]]))) == 0
    assert json.loads(shelf.meta_of(json.dumps(["{}", None]))) is None
    assert json.loads(shelf.copies_of(json.dumps(["{", copies[1]]))) == [[0, 1], 3]  # the damaged one first


def test_a_checkpoint_that_is_damaged_is_overwritten_before_one_that_is_whole():
    disk = Disk()
    keeping = Keeping(disk.found(), 100, 1000)
    for step in (10, 20):
        disk.write(order := keeping.order(at(step), FACTS))
        keeping.kept(0.0, order)
    damaged = [disk.records[0], json.dumps({"sequence": 2, "damaged": True})]
    assert json.loads(shelf.order_of(json.dumps(damaged))) == [0]
    assert json.loads(shelf.next_of(json.dumps(damaged))) == [1, 3]
    neither = [json.dumps({"sequence": 1, "damaged": True}), damaged[1]]
    assert json.loads(shelf.order_of(json.dumps(neither))) == []
    assert json.loads(shelf.next_of(json.dumps(neither))) == [0, 3]  # newer than either


def test_the_weights_of_a_checkpoint_can_be_found_without_its_optimizer():
    config = RunConfig(ModelConfig(layers=1, d_model=8, heads=2, ctx=8), TrainConfig(optimizer="adamw"))
    where = shelf.weight_pieces(config)
    sizes = [length for _, length in where["pieces"]]
    assert sum(sizes) * 3 == where["bytes"] and where["pieces"][:2] == [[0, sizes[0]], [3 * sizes[0], sizes[1]]]
    facts = {"config": config.as_dict(), "parameters": 5, "engine": "wasm"}
    order = Keeping(EMPTY, 100, 1000).order(at(20), facts)
    record = {**order["record"], "savedAt": "now"}
    assert json.loads(shelf.salvage(json.dumps(record))) is None  # of an older page, which had no digest of them
    told = json.loads(shelf.salvage(json.dumps({**record, "weights": "0a"})))
    assert (told["sha256"], told["step"], told["header"]["slots"]) == ("0a", 20, [])
    assert told["header"]["rng"]["step"] == 20 and told["header"]["manifest"][1]["floatOffset"] == sizes[0] // 4
    adapters = {**config.as_dict(), "lora": LoraConfig().as_dict()}
    assert json.loads(shelf.salvage(json.dumps({**record, "config": adapters, "weights": "0a"}))) is None


@pytest.mark.parametrize(
    "kind, newest, log, said",
    [
        ("slot", 20, True, ""),
        ("file", None, True, ""),
        ("snapshot", 30, True, "The checkpoint of step 30 is damaged: this is step 20."),
        ("weights", 20, True, "The state of its optimizer is damaged"),
        ("slot", 20, False, "Its log is damaged: some steps are missing in the curve."),
    ],
)
def test_what_was_lost_is_said(kind, newest, log, said):
    told = shelf.recovered(json.dumps({"step": 20, "kind": kind, "newest": newest, "log": log}))
    assert told.startswith(said) and bool(told) == bool(said)


def test_configs_differ_by_label():
    one, other = RunConfig(ModelConfig(), TrainConfig()), RunConfig(ModelConfig(d_model=48), TrainConfig(lr=0.01))
    rows = json.loads(shelf.differences(json.dumps([one.as_dict(), other.as_dict(), one.as_dict()])))
    assert rows == [["width", [96, 48, 96]], ["learning rate", [0.0003, 0.01, 0.0003]]]
