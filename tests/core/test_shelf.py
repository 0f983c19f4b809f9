"""What a tab keeps of a run: by turns, in time, thinned out; and what it finds after a crash at any instant."""

import json
from itertools import pairwise

import pytest

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.run.progress import Progress
from tinygpt.core.tab import shelf
from tinygpt.core.tab.shelf import KEEP_EVERY, KEEP_FIRST, KEEP_LARGEST, KEEP_SHARE, SNAPSHOT_BYTES, SNAPSHOTS, Keeping

EMPTY = {"records": [None, None], "snapshots": [], "durable": True}
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
    meta = [json.dumps({"sequence": 1, "title": "first", "created": "then", "text": {}}), '{"sequence": 2, "ti']
    told = json.loads(shelf.facts(json.dumps({"id": "a", "bytes": 3, "meta": meta, **disk.found()})))
    assert (told["title"], told["step"], told["steps"]) == ("first", 20, TrainConfig().steps)
    assert [stop["step"] for stop in told["stops"]] == [8, 16, 20]
    assert told["validations"] == [[8, 4.0], [16, 4.0], [20, 4.0]]
    for half in ({"meta": [None, None]}, {"records": ["", None]}):
        assert shelf.facts(json.dumps({"id": "a", "bytes": 3, "meta": meta, **disk.found(), **half})) == "null"


def test_configs_differ_by_label():
    one, other = RunConfig(ModelConfig(), TrainConfig()), RunConfig(ModelConfig(d_model=48), TrainConfig(lr=0.01))
    rows = json.loads(shelf.differences(json.dumps([one.as_dict(), other.as_dict(), one.as_dict()])))
    assert rows == [["width", [96, 48, 96]], ["learning rate", [0.0003, 0.01, 0.0003]]]
