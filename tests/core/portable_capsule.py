"""Prints how capsules are made, read and compared, for test_micropython.py to compare."""

import json

from tinygpt.core.capsule.compare import Comparison, arithmetic_of, replay, require_text, stretch
from tinygpt.core.capsule.content import (
    Capsule,
    TextFacts,
    encode_capsule,
    lengths_with,
    read_capsule,
    told_steps,
    trace_of,
)
from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.op import bits_float, float_bits
from tinygpt.core.optimizers.schedule import learning_rate

DEVICE = "native C++, 512-bit vectors, 2 threads, arena 8.1 MB"
CONFIG = RunConfig(
    ModelConfig(layers=1, d_model=16, heads=2, ctx=8), TrainConfig(batch=2, steps=200, schedule="cosine", warmup=3)
)


LENGTHS = [[0, 200]]


def losses_of(steps):
    return [bits_float(float_bits(5.5 / (1 + step / 40))) for step in range(1, steps + 1)]


def rows_of(steps):
    losses = losses_of(steps)
    return [(step, losses[step - 1], learning_rate(CONFIG.train, step)) for step in range(1, steps + 1)]


def made(steps):
    losses = trace_of(CONFIG, LENGTHS, rows_of(steps), steps, steps * 16)
    text = TextFacts("poem.txt", "a" * 64, 1000, 900, 0)
    return Capsule("0.1.0", "a run", CONFIG, LENGTHS, text, "native", DEVICE, steps, losses, "b" * 64)


def refused(call, *arguments):
    try:
        call(*arguments)
        print("accepted", arguments)
    except TinyGPTError as error:
        print("refused:", error)


stated = encode_capsule(made(120))
read = read_capsule(json.dumps(stated))
print(read.config == CONFIG, read.steps, list(read.text), [float_bits(loss) for loss in read.losses][-3:])
print([float_bits(loss) for loss in read.losses] == [float_bits(loss) for loss in losses_of(120)])
print(lengths_with(CONFIG, [], 50), lengths_with(CONFIG, [(30, 90, 200), (60, 200, 120)], 50))
print(len(told_steps(8192)), len(told_steps(8193)), told_steps(100000)[1])

refused(trace_of, CONFIG, LENGTHS, rows_of(5), 6, 96)
refused(trace_of, CONFIG, LENGTHS, rows_of(5), 0, 0)
refused(trace_of, CONFIG, LENGTHS, rows_of(5), 5, 81)
refused(trace_of, CONFIG, [[0, 200], [10, 100]], rows_of(20), 20, 320)
refused(require_text, read, "c" * 64, 1000)
refused(require_text, read, "a" * 64, 999)
for first, steps in ((0, 121), (0, 0), (120, None), (100, 21), (-1, 1)):
    refused(stretch, read, first, steps)
print(stretch(read, 0, None), stretch(read, 20, 5))


def with_changes(changes):
    changed = {key: stated[key] for key in stated}
    for path in changes:
        place = changed
        keys = path.split(".")
        for key in keys[:-1]:
            place[key] = {name: place[key][name] for name in place[key]}
            place = place[key]
        if changes[path] is None:
            del place[keys[-1]]
        else:
            place[keys[-1]] = changes[path]
    return json.dumps(changed)


for changes in (
    {"format": "zip"},
    {"version": 2},
    {"weights": None},
    {"surplus": 1},
    {"steps": 121},
    {"steps": 10**12},
    {"lengths": [[0, 100]]},
    {"lengths": [[0, 100], [0, 200]]},
    {"lengths": [[1, 200]]},
    {"lengths": [[0, 200, 1]]},
    {"steps": True},
    {"losses": {"0": 1}},
    {"losses": losses_of(119) + ["5"]},
    {"losses": losses_of(119) + [-1.0]},
    {"losses": losses_of(119) + [1e300]},
    {"weights": "B" * 64},
    {"title": "x" * 201},
    {"device": 5},
    {"text": []},
    {"text.train": 1001},
    {"text.train": 8},
    {"text.sha256": "../../etc/passwd"},
    {"config.model": {"layers": 1}},
    {"config.model.layers": 10**9},
    {"config.model.heads": 3},
    {"config.train.evil": 1},
    {"config.train.steps": 100},
    {"config.train.batch": 65536, "config.train.grad_accum": 65536},
):
    refused(read_capsule, with_changes(changes))
try:
    read_capsule(json.dumps(stated)[:900])
except TinyGPTError as error:
    print("refused:", str(error).split("(")[0])
refused(read_capsule, "[1]")
refused(read_capsule, '{"a":' * 20 + "1" + "}" * 20)

print(arithmetic_of(DEVICE))
print(arithmetic_of("WebAssembly, SIMD, 1 thread, 64-bit memory, 8.1 MB, in Node"))
print(arithmetic_of("WebAssembly, SIMD, 1 thread, 8.1 MB (not cross-origin isolated: threads, and more)"))


def verdict(device, version, changed, weights=None, steps=120):
    comparison = Comparison(read, version, device)
    losses = losses_of(120)
    for step in range(1, steps + 1):
        comparison.take(step, losses[step - 1] * changed.get(step, 1.0))
    found = comparison.verdict(weights)
    print(found.verdict, found.weights, found.steps, found.at, found.head, found.text)


OTHER = "WebAssembly, relaxed SIMD, 2 threads, 8 MB"
SAME, CHANGED = "b" * 64, "c" * 64
ALL_OFF = dict.fromkeys(range(1, 121), 1.0009)
print("verdicts")
verdict(DEVICE, "0.1.0", {})
verdict(DEVICE, "0.1.0", {}, SAME)
verdict(DEVICE, "0.1.0", {}, CHANGED)
verdict(DEVICE, "0.1.0", {7: 1.00001})
verdict(DEVICE, "0.1.0", {7: 1.00001}, CHANGED)
verdict(DEVICE, "0.2.0", {7: 1.00001})
verdict(OTHER, "0.1.0", {}, SAME)
verdict(OTHER, "0.1.0", {}, CHANGED)
verdict(OTHER, "0.1.0", ALL_OFF, CHANGED)
verdict(OTHER, "0.1.0", ALL_OFF, SAME)
verdict(OTHER, "0.1.0", {7: 1.0000002}, SAME)
verdict(OTHER, "0.1.0", {7: 1.0009, 60: 1.2}, CHANGED)
verdict(OTHER, "0.1.0", {7: 1.0011})
verdict(OTHER, "0.1.0", {50: 1.0011}, None, 50)
verdict(OTHER, "0.1.0", {119: 2.5})
verdict(OTHER, "0.1.0", {51: float("nan")})
verdict(OTHER, "0.1.0", {3: float("nan")}, None, 5)
verdict(DEVICE, "0.1.0", {}, None, 1)
verdict(DEVICE, "0.1.0", {}, None, 0)


class Noting:
    """An engine that notes what is asked of it."""

    block = 64

    def __init__(self):
        self.asked = []

    def retime(self, steps):
        self.asked.append(("retime", steps))

    async def train(self, steps):
        self.asked.append(steps)
        return steps

    async def read_metrics(self):
        return []

    async def agree(self, flag):
        return flag


engine = Noting()
print(run_now(replay(engine, [[0, 200], [30, 90], [35, 120]], 0, 110, lambda: 0.0, lambda metrics: None)), engine.asked)
engine = Noting()
print(run_now(replay(engine, [[0, 200], [30, 90], [35, 120]], 31, 40, lambda: 0.0, lambda metrics: None)), engine.asked)
