"""What Python says in a tab, and is told there, is what core/tab/protocol.pyi describes, and all of that is said."""

import hashlib
import importlib
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from described import NAMES, Checked, check, every_mark

from tinygpt.core.config import TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.tab.session import TabHost
from tinygpt.engines.base import Tables
from tinygpt.engines.native import NativePlayer
from tinygpt.engines.typescript import protocol
from tinygpt.store.formats.table_rows import is_stored, table_parts

pytestmark = pytest.mark.xdist_group("protocol")  # the last test asks what all others have seen

TEXT = b"".join(b"On day %d they saw %d ships and %d whales.\n" % (day, day * day % 97, day % 13) for day in range(800))
SHA256 = hashlib.sha256(TEXT).hexdigest()
SIZES = {
    "layers": 1,
    "d_model": 8,
    "heads": 2,
    "ctx": 8,
    "batch": 2,
    "optimizer": "adamw",
    "ngrams": "2,3",
    "ngram_rows": 256,
    "ngram_width": 4,
}
KEPT_TEXT = {"sha256": SHA256, "bytes": len(TEXT), "name": "whales"}
LORA = {"rank": 2, "alpha": 4.0, "targets": "q_proj"}
DEVICE = {"max_buffer": 2**30, "max_binding": 2**30, "max_groups": 65535, "max_invocations": 256, "max_shared": 2**14}
DEVICE |= {"subgroups": True, "f16": True, "processors": 8}


class Bridge:
    """JavaScript's player, here the native one."""

    def __init__(self, playbook, seconds):
        self.player = NoGpu(playbook) if "pipelines" in playbook else NativePlayer(playbook, 1, 4)
        self.seconds = seconds

    def threads(self):
        return self.player.threads

    def describe(self):
        described = self.player.describe
        return described if isinstance(described, str) else described()

    async def write(self, places, digits):
        await self.player.write(json.loads(places), bytes.fromhex(digits))

    async def put(self, places, data):
        await self.player.write(json.loads(places), data)

    async def read(self, places):
        return (await self.player.read(json.loads(places))).hex()

    async def take(self, places):
        return bytearray(await self.player.read(json.loads(places)))

    async def run(self, mode, times):
        self.seconds(times)
        return await self.player.run(mode, times)

    def close(self):
        pass


class NoGpu:
    """Memory of a GPU that computes nothing."""

    threads, describe = 1, "no GPU"

    def __init__(self, playbook):
        self.memory = [bytearray(size) for size in playbook["buffers"]]

    async def write(self, places, data):
        pass

    async def read(self, places):
        return b"".join(bytes(self.memory[buffer][at : at + size]) for buffer, at, size in places)

    async def run(self, mode, times):
        return times


class Worker:
    """JavaScript's side of whatever Python does. Its clock moves by steps alone."""

    def __init__(self, requests=(), last_step=10**9, each=0.01):
        self.asked, self.last_step, self.each = list(requests), last_step, each
        self.clock, self.events, self.written_pieces, self.refusals = 100.0, [], [], []
        self.state, self.file, self.lent, self.fault = None, None, None, None
        self.playbooks, self.bridge = [], None

    def spend(self, times):
        self.clock += self.each * times

    async def open(self, playbook):
        self.playbooks.append(json.loads(playbook))
        self.bridge = Bridge(self.playbooks[-1], self.spend)
        return self.bridge

    async def startValues(self, playbook, places):
        player = NativePlayer(json.loads(playbook), 1, 4)
        await player.run("init", 1)
        return bytearray(await player.read(json.loads(places)))

    def zeros(self, size):
        return bytearray(size)

    def now(self):
        self.clock += 0.001
        return self.clock

    def emit(self, event):
        self.events.append(json.loads(event))

    def step(self):
        rows = [event["rows"][-1][0] for event in self.events if event["event"] == "steps"]
        return rows[-1] if rows else 0

    def stopping(self):
        return self.step() >= self.last_step

    async def digest(self, places):
        return hashlib.sha256(await self.bridge.player.read(json.loads(places))).hexdigest()

    def waiting(self):
        return bool(self.asked)

    def requests(self):
        asked, self.asked = self.asked, []
        return json.dumps(asked)

    async def save(self, header, places):
        self.file = json.loads(header), await self.bridge.player.read(json.loads(places))

    async def keep(self, order, state):
        self.order = json.loads(order)
        self.state = state
        return json.dumps(self.fault)

    async def kept(self, step):
        return self.state

    async def lend(self, places):
        self.lent = await self.bridge.player.read(json.loads(places))

    def written(self, piece):
        self.written_pieces.append(json.loads(piece))
        return True

    def weighed(self, likely):
        self.likely = json.loads(likely)

    def refused(self, message):
        self.refusals.append(message)


@pytest.fixture(scope="module")
def marks():
    return set()


@pytest.fixture(scope="module")
def python(marks):
    """core/tab's modules, whose every call is checked."""
    names = list(NAMES["Python"].__annotations__)
    modules = SimpleNamespace(**{name: importlib.import_module(f"tinygpt.core.tab.{name}") for name in names})
    kinds = {name: NAMES[f"{name.capitalize()}Module"] for name in names}
    return SimpleNamespace(**{name: Checked(getattr(modules, name), kinds[name], marks) for name in names})


def request(**more):
    return json.dumps({"preset": "tiny", "recipe": "classic", "changes": {}, "bytes": len(TEXT), **more})


def opened(python, worker, below=None, state=None, **more):
    session = python.session.Session(request(**more))
    plan = json.loads(session.plan())
    cut = plan["trainBytes"]
    run_now(session.open(worker, TEXT[:cut], TEXT[cut:], state, below))
    return session, plan


def file_of(header, state):
    """As modelfile.ts writes one: its first bytes and size, its header's text, its first bytes after that."""
    header, state = with_stored_rows(header, state)
    text = json.dumps({**header, "savedAt": "now"}).encode()
    step = struct.pack("<i", header["rng"]["step"])
    return (
        {"prefix": list(b"TGPT" + struct.pack("<II", 2, len(text)))},
        text.decode(),
        step,
        16 + len(text) + len(state),
    )


def with_stored_rows(header, state):
    """As tables.ts does: of n-gram tables, the rows that are not zero."""
    if "tables" not in header:
        return header, state
    (rows, width), slots = header["tables"]["shape"], header["includesOptimizerState"]
    floats = np.frombuffer(state, "<f4")[-rows * (width + slots) :]
    tables = Tables(floats[: rows * width].reshape(rows, width), floats[rows * width :] if slots else None)
    kept = b"".join(part.tobytes() for part in table_parts(tables, "float32", slots, None, None))
    state = state[: len(state) - 4 * floats.size] + kept
    stored = {**header["tables"], "rows": int(is_stored(tables).sum())}
    return {**header, "tables": stored, "stateByteLength": 4 + len(state)}, state


def front_of(python, header, state):
    stated, text, step, size = file_of(header, state)
    start = json.loads(python.file.measure(json.dumps({**stated, "size": size})))
    assert start == {"start": 12, "length": len(text)}
    asked = json.dumps({**stated, "size": size, "step": list(step)})
    assert json.loads(python.file.alone(asked, text, "int8"))["rng"]["step"] == header["rng"]["step"]
    assert json.loads(python.single.writing_plan(asked, text))["ctx"] == header["config"]["ctx"]
    facts = json.dumps({"repo": "me/whales", "title": "Whales", "licence": ""})
    assert "# Whales" in json.loads(python.publish.published(asked, text, facts))["card"]
    return json.loads(python.file.front(asked, text))


ASKED = [
    {"type": "save"},
    {"type": "keep"},
    {"type": "look"},
    {"type": "write", "prompt": [65], "settings": {"tokens": 3}, "stop": "zz"},
    {"type": "weigh", "prompt": [65], "settings": {}},
    {"type": "write", "prompt": [65], "settings": {"tokens": -1}},
]


@pytest.fixture(scope="module")
def trained(python):
    """A run of 40 steps that did all it can be asked for."""
    worker = Worker(ASKED)
    changes = {**SIZES, "steps": 40, "eval_every": 10, "sample_every": 20}
    found = {"records": [None, None], "snapshots": [], "durable": True}
    session, _ = opened(python, worker, changes=changes, kept=found, memory={"reported": None}, prompt="On", title="x")
    ended = json.loads(run_now(session.train()))
    worker.fault = ["QuotaExceededError", "it is full"]
    run_now(session.keep_end())
    worker.fault = None
    run_now(session.keep_end())
    run_now(TabHost(session.target).go_back())  # as after a divergence
    return SimpleNamespace(worker=worker, session=session, ended=ended)


def test_a_run(python, trained):
    worker, session = trained.worker, trained.session
    assert trained.ended == {"reason": "finished", "step": 40} and len(worker.refusals) == 1
    assert {"steps", "eval", "sample", "checkpoint", "unkept"} <= {event["event"] for event in worker.events}
    state = run_now(worker.bridge.player.read(json.loads(run_now(session.state_places()))))
    front = front_of(python, json.loads(session.header_text()), state)
    assert front["progress"]["step"] == 40 and worker.lent
    learnt = {"name": "whales", "sha256": SHA256}
    assert front_of(python, {**json.loads(session.header_text()), "data": learnt}, state)["learnt"] == learnt
    reading = Worker([{"type": "write", "prompt": [], "settings": {"tokens": 2}}])
    origin = {name: front[name] for name in ("config", "progress", "slots", "adapter", "dtype")}
    only = python.session.Session(request(bytes=None, origin=origin, preset="", recipe=""))
    only.plan()
    run_now(only.open(reading, b"", b"", state))
    run_now(only.attend())
    assert reading.written_pieces[-1][2] is True
    assert json.loads(only.stands())["progress"]["step"] == 40


def test_a_run_that_diverges_and_one_that_is_advised(python):
    worker = Worker()
    changes = {**SIZES, "steps": 60, "lr": 10.0, "warmup": 0, "grad_clip": 0.0, "eval_every": 0}
    found = {"records": [None, None], "snapshots": [], "durable": False}
    session, _ = opened(python, worker, changes=changes, kept=found)
    assert json.loads(run_now(session.train()))["reason"] == "diverged"
    worker = Worker(last_step=150)
    changes = {"lr": 0.3, "warmup": 0, "steps": 1000, "eval_every": 70, "eval_batches": 1, "sample_every": 0}
    session, _ = opened(python, worker, recipe="modern", changes=changes)
    run_now(session.train())
    assert "advice" in {event["event"] for event in worker.events}


def test_adapters(python, trained):
    base = {"config": json.loads(trained.session.stands())["config"], "sha256": "ab" * 32}
    weights = run_now(trained.worker.bridge.player.read(json.loads(run_now(trained.session.state_places()))))
    worker = Worker([{"type": "save"}])
    asked = {"preset": "", "recipe": "", "changes": {"steps": 10, "eval_every": 5}, "lora": LORA, "base": base}
    count = json.loads(trained.session.plan())["parameters"]
    session, plan = opened(python, worker, weights[: 4 * count], title="taught", **asked)
    assert json.loads(run_now(session.train()))["reason"] == "finished"
    assert worker.events[0]["event"] == "base" and "tensors" in worker.file[0]
    config = plan["config"]
    assert json.loads(python.file.merging(json.dumps(config)))["moves"]
    origin = json.loads(session.stands())
    merged = {"config": config, "progress": origin["progress"], **origin["adapter"]}
    assert "rng" in json.loads(python.file.merged_header(json.dumps(merged)))
    told = json.loads(python.asked.teaching(json.dumps({"config": base["config"], "lora": LORA, "bytes": len(TEXT)})))
    assert told["trained"] and told["projections"] and told["usual"]["train"]["steps"] == TrainConfig().steps
    fault = json.loads(python.file.measure(json.dumps({"prefix": [0] * 12, "size": 5})))
    assert "error" in fault


def test_the_library(python, trained, marks):
    order = trained.worker.order
    record = json.dumps({**order["record"], "savedAt": "now", "weights": "cd" * 32})
    meta = {"title": "a run", "created": "then", "text": KEPT_TEXT, "base": {"title": "c", "sha256": ""}}
    meta["forked"] = {"run": "b", "title": "b", "step": 3}
    marks |= check(meta, NAMES["Meta"], "meta")  # which JavaScript writes and reads
    metas = [json.dumps({**meta, "sequence": 1})]
    folder = {"records": [record, None], "snapshots": [record], "durable": True, "id": "a", "bytes": 7}
    folder |= {"meta": [*metas, None], "files": ["model.0.tinygpt"]}
    shelf = python.shelf
    assert json.loads(shelf.order_of(json.dumps([record, None]))) == [0]
    assert json.loads(shelf.meta_of(json.dumps(metas))) == 0 and json.loads(shelf.meta_of(json.dumps([None]))) is None
    assert json.loads(shelf.copies_of(json.dumps([*metas, None])))[1] == 2
    run = json.loads(shelf.facts(json.dumps(folder)))
    assert run["step"] == 40
    assert json.loads(shelf.damage(json.dumps({**folder, "records": [None, None]})))["model"] is True
    assert json.loads(shelf.salvage(record))["step"] == 40 and json.loads(shelf.salvage("{}")) is None
    assert "damaged" in shelf.recovered(json.dumps({"step": 3, "kind": "snapshot", "newest": 5, "log": True}))
    other = {**run["config"], "train": {**run["config"]["train"], "steps": 7}}
    assert json.loads(shelf.differences(json.dumps([run["config"], other]))) == [["steps", [40, 7]]]


def test_a_budget_and_an_estimate(python):
    worker = Worker(each=0.02)
    budget = python.budget.Budget(
        json.dumps({"seconds": 12, "bytes": len(TEXT), "presets": ["tiny"], "changes": {"seed": 7}})
    )
    cut = budget.train_bytes
    parts = json.loads(budget.wanted())
    texts = [TEXT[:cut], TEXT[cut:]]
    pieces = [[list(text[at : at + size]) for at, size in part] for text, part in zip(texts, parts, strict=True)]
    chosen = json.loads(run_now(budget.choose(worker, *texts, json.dumps(pieces))))
    worker.each *= 2  # it is slower than was measured
    session, _ = opened(python, worker, **chosen["request"])
    run_now(session.train())
    assert {"option", "retime", "verdict"} <= {event["event"] for event in worker.events}
    stopped = Worker(last_step=0)
    budget = python.budget.Budget(json.dumps({"seconds": 12, "bytes": len(TEXT)}))
    assert json.loads(run_now(budget.choose(stopped, *texts, json.dumps(pieces)))) == {"stopped": True}
    budget = python.budget.Budget(json.dumps({"seconds": 0.001, "bytes": len(TEXT), "hardness": 2.0}))
    assert json.loads(budget.wanted()) == [[], []]  # what is known is not looked at again
    assert "error" in json.loads(run_now(budget.choose(Worker(), *texts, json.dumps(pieces))))
    plain = {"preset": "tiny", "recipe": "classic", "changes": {}, "bytes": len(TEXT), "inHand": None, "lora": None}
    config = json.loads(session.stands())["config"]
    for more in ({}, {"inHand": {"config": config, "step": 3}}, {"inHand": {"config": config, "step": 3}, "lora": {}}):
        estimate = python.estimate.Estimate(json.dumps({**plain, **more}))
        estimate.plan()
        assert json.loads(run_now(estimate.measure(Worker(each=0.2), *texts)))["seconds"] > 0


def test_a_model_that_learns_a_task_is_asked_on_the_way(python):
    worker = Worker()
    changes = {"steps": 4, "eval_every": 2, "sample_every": 0, "layers": 1, "d_model": 16, "heads": 2, "batch": 4}
    session, plan = opened(python, worker, changes=changes, recipe="modern", textName="task:addition:1")
    assert plan["config"]["train"]["windows"] == "random"  # its lines may all be of one length
    assert json.loads(run_now(session.train()))["reason"] == "finished"
    exams = [event for event in worker.events if event["event"] == "exam"]
    assert [exam["step"] for exam in exams] == [2, 4] and all(exam["asked"] for exam in exams)
    assert all(len(row) == 3 for exam in exams for row in exam["answers"])


def test_a_gpu_is_planned_for(python):
    for ask in (
        lambda: python.session.Session(request(device=DEVICE)),
        lambda: python.estimate.Estimate(request(device=DEVICE, inHand=None, lora=None)),
    ):
        assert json.loads(ask().plan())["bytes"] > 0
    worker = Worker(each=0.02)
    assert python.budget.Budget(json.dumps({"seconds": 60, "bytes": len(TEXT), "device": DEVICE})).train_bytes
    reading = python.measure.Reading(json.dumps({"preset": "tiny", "bytes": len(TEXT), "device": DEVICE}))
    assert json.loads(run_now(reading.read(worker, TEXT)))["steps"] >= 30
    session, _ = opened(python, worker, device=DEVICE, changes={"steps": 3})
    assert json.loads(run_now(session.train()))["step"] == 3
    assert all(playbook["pipelines"] for playbook in worker.playbooks)


def test_a_capsule(python, trained):
    worker, standing = trained.worker, json.loads(trained.session.stands())
    rows = [row[:2] + row[3:] for event in worker.events if event["event"] == "steps" for row in event["rows"]]
    steps = standing["config"]["train"]["steps"]
    asked = {"title": "a run", "text": KEPT_TEXT, "config": standing["config"], "step": steps, "engine": "wasm"}
    asked |= {"tokensSeen": standing["progress"]["tokens_seen"], "devices": ["native C++"], "weights": "ab" * 32}
    asked |= {"rows": rows, "retimed": []}
    capsule = json.loads(python.capsules.made(json.dumps(asked)))["capsule"]
    moved = {**asked, "retimed": [[5, 30, 40]], "rows": rows[1:]}
    assert "error" in json.loads(python.capsules.made(json.dumps(moved)))
    replay = python.capsules.Replay(json.dumps({"capsule": json.dumps(capsule), "steps": 10}))
    facts = json.loads(replay.facts())
    replay.check_text(SHA256, len(TEXT))
    verdict = json.loads(run_now(replay.run(Worker(), TEXT[: facts["trainBytes"]], None)))
    assert verdict["verdict"] in ("equal", "unproved", "different")
    origin = {**standing, "name": "a file", "slots": ["m", "v"], "progress": {**standing["progress"], "step": 30}}
    ahead = python.capsules.Replay(json.dumps({"capsule": json.dumps(capsule), "origin": origin, "steps": None}))
    end = Worker()
    run_now(ahead.run(end, TEXT[: facts["trainBytes"]], worker.state))
    assert end.events[0] == {"event": "replaying", "engine": end.bridge.describe(), "steps": 40}
    run = {"id": "a", "title": "a", "created": "", "savedAt": "", "forked": None, "base": None, "text": KEPT_TEXT}
    run |= {"step": 40, "steps": 40, "loss": 1, "best": None, "config": standing["config"], "parameters": 1}
    run |= {
        "engine": "wasm",
        "history": [],
        "validations": [],
        "sample": "",
        "stops": [{"step": 9, "loss": None}],
        "bytes": 1,
    }
    assert json.loads(replay.stops(json.dumps([run]))) == [{"run": "a", "title": "a", "step": 9}]
    gpu = {"capsule": json.dumps(capsule), "device": DEVICE}
    assert python.capsules.Replay(json.dumps(gpu)).facts()


def test_a_look_inside(python, trained):
    config = json.dumps({key: json.loads(trained.session.stands())["config"][key] for key in ("model", "train")})
    facts = json.loads(python.inside.facts(config))
    assert python.inside.learnt(100, 0.1) == 90
    moves = json.loads(python.inside.moves(config, 8, json.dumps([[facts["parts"][0], 0.5]])))
    assert moves["scaled"] and moves["kept"]
    asked = {"config": json.loads(config), "length": 8, "mode": "inspect", "tensors": facts["attention"]}
    inside = python.inside.Inside(json.dumps(asked))
    kept = sum(end - begin for begin, end in moves["kept"])
    seen = json.loads(run_now(inside.open(Worker(), bytes(4 * kept))))
    assert seen["tensors"][0][0] == facts["attention"][0]
    run_now(inside.run(json.dumps(list(b"abcdefghi")), None))


def test_a_dataset_and_advice(python):
    asked = {"dataset": "o/n", "config": None, "split": None, "column": None, "look": True, "budget": 9, "token": False}
    splits = json.dumps({"splits": [{"config": "default", "split": "train"}]})
    features = [{"name": "text", "type": {"dtype": "string", "_type": "Value"}}]
    rows = {"features": features, "rows": [{"row": {"text": "words"}, "truncated_cells": []}] * 2, "num_rows_total": 2}
    ok = json.dumps({"status": 200, "wait": 0})
    for look in (True, False):
        visit = python.texts.Visit(json.dumps({**asked, "look": look, "rowsPerPage": 2}))
        assert json.loads(visit.step("", ""))["wait"] == 0
        visit.step(ok, splits)
        assert "done" in json.loads(visit.step(ok, json.dumps(rows)))
    assert "error" in json.loads(visit.step(json.dumps({"status": 404, "wait": 0}), "{}"))
    text = {"preset": "tiny", "recipe": "modern", "changes": {}, "bytes": 2000, "start": [255, 254]}
    config = json.loads(python.session.Session(request()).plan())["config"]
    for more in ({}, {"config": config}, {"config": config, "lora": {}}):
        assert json.loads(python.texts.advice(json.dumps({**text, **more})))
    timed = {**text, "timed": True, "start": [65]}  # of its size and length nothing is known yet
    assert json.loads(python.texts.advice(json.dumps(timed))) == []
    (short,) = json.loads(python.texts.advice(json.dumps({**timed, "bytes": 300})))
    assert "33 bytes of each at least; there are 270 and 30" in short


def test_a_measurement(python):
    gpu = {"adapter": "a GPU", "software": False}
    rounds = json.loads(python.measure.plan(json.dumps({"gpu": gpu})))
    reading = python.measure.Reading(json.dumps({"preset": "tiny", "bytes": len(TEXT)}))
    read = json.loads(run_now(reading.read(Worker(each=0.05), TEXT)))
    asked = {"preset": "tiny", "agent": "", "cores": 1, "memory": None, "gpu": gpu, "note": ""}
    asked["readings"] = [{"name": engine, **read} for engine, _ in rounds]
    assert json.loads(python.measure.report(json.dumps(asked)))["figures"]["wasm"] == read["ms"]


def test_what_the_page_is_built_with(marks):
    from tinygpt.site.build import facts, model_rows

    stated = json.loads(json.dumps([facts(), model_rows()]))
    marks |= check(stated[0], NAMES["Site"], "site") | check(stated[1], list[NAMES["SiteModel"]], "models")  # noqa: F821


def test_nothing_is_described_that_is_not_said(marks):
    """It comes last: all tests above have made their marks."""
    left = sorted(every_mark() - marks)
    assert not left, "\n".join(map(str, left))


def test_a_difference_is_found():
    for value, kind in (({"error": 1}, "Failed"), ({"error": "", "more": 1}, "Failed"), ({}, "Failed"), ([1], "Point")):
        with pytest.raises(AssertionError):
            check(value, NAMES[kind], "here")
    assert "export interface Plan {" in protocol() and "  lora?: Changes; // of adapters" in protocol()
