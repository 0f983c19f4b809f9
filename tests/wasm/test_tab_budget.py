"""A budget in the tab: for so many seconds the page gets the run that makes the most of them, and it ends on time."""

import pytest
from recording import evaluate

from tinygpt.core.advice.hardness import hardness
from tinygpt.core.advice.law import TextFacts, predict
from tinygpt.core.advice.law_numbers import LAWS
from tinygpt.core.corpus import train_bytes
from tinygpt.core.presets import cut_short, preset

SECONDS = 8
TEXT = "".join(f"On day {day} they saw {day * day % 97} ships and {day % 13} whales.\n" for day in range(800))
CODE = """
const { WasmPlayer } = await import("/players/wasmplayer.ts");
const kernels = async (file) => (await fetch("/kernels/" + file)).arrayBuffer();
const text = new TextEncoder().encode(TEXT);
const cut = TRAIN_BYTES;
const [train, val] = [text.subarray(0, cut), text.subarray(cut)];
const events = [], players = [];
let left = OPTIONS, clock = 0;  // seconds that a made-up machine took: how fast this one is does not matter
const page = {
  open: async (playbook) => {
    const player = await WasmPlayer.create(JSON.parse(playbook), { kernels, threads: 1 });
    const run = player.run.bind(player);
    player.run = (mode, times) => { clock += 0.014 * times; return run(mode, times); };
    players.push(player);
    return bridge(player, () => false, (error) => { throw error; });
  },
  now: () => (clock += 0.001),
  emit: (event) => { events.push(JSON.parse(event)); if (events.at(-1).event === "option") left--; },
  stopping: () => left <= 0,
  requests: () => "[]",
  keep: async () => "null",
};
const began = page.now();
const budget = python.budget.Budget(JSON.stringify({ bytes: text.length, ...REQUEST }));
const parts = JSON.parse(budget.wanted());
const pieces = [train, val].map((part, i) => parts[i].map(([at, size]) => Array.from(part.subarray(at, at + size))));
const answer = JSON.parse(await budget.choose(page, train, val, JSON.stringify(pieces)));
if (!answer.request) return { answer, events, players: players.length };
const session = python.session.Session(JSON.stringify({ bytes: text.length, ...answer.request }));
const plan = JSON.parse(session.plan());
await session.open(page, train, val, null);
const ended = JSON.parse(await session.train());
players.at(-1).close();
return { answer, events, ended, plan, took: page.now() - began };
"""


def asked(chromium, options=99, **request):
    values = {"TEXT": TEXT, "TRAIN_BYTES": train_bytes(len(TEXT), 0.1), "REQUEST": request, "OPTIONS": options}
    return evaluate(chromium, CODE, **values)


def test_the_run_that_is_chosen_is_trained_and_judged(chromium):
    got = asked(chromium, seconds=SECONDS, presets=["tiny", "small"], changes={"seed": 7})
    assert "chosen" in got["answer"], got["answer"]
    chosen, request, events = got["answer"]["chosen"], got["answer"]["request"], got["events"]
    options = [event["option"] for event in events if event["event"] == "option"]
    assert [option["preset"] for option in options] in (["small"], ["small", "tiny"])
    assert chosen["preset"] == request["preset"] and request["recipe"] == "modern"

    cut = train_bytes(len(TEXT), 0.1)
    text = TEXT.encode()
    run = cut_short(preset(request["preset"], "modern", cut), request["changes"])
    facts = TextFacts(cut, hardness(text[:cut], text[cut:]))
    assert chosen["predicted"]["loss"] == pytest.approx(predict(LAWS, chosen["preset"], run, facts).loss, rel=1e-5)
    assert run.train.seed == 7 and run.train.steps == chosen["steps"]
    assert got["plan"]["config"] == run.as_dict()

    verdict = events[-1]
    evals = [event["val_loss"] for event in events if event["event"] == "eval"]
    assert verdict["event"] == "verdict" and verdict["reached"] == min(evals)
    assert got["ended"]["reason"] == "finished"
    lengths = [chosen["steps"]] + [event["steps"] for event in events if event["event"] == "retime"]
    assert got["ended"]["step"] == lengths[-1]
    assert 0.9 * SECONDS < got["took"] <= SECONDS


def test_a_stop_and_an_impossible_wish_are_answered(chromium):
    stopped = asked(chromium, options=1, seconds=60)
    assert stopped["answer"] == {"stopped": True} and stopped["players"] == 1
    assert "give it more minutes" in asked(chromium, seconds=0.001, presets=["tiny"])["answer"]["error"]
