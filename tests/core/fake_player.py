"""A player that computes nothing, but keeps the books that programs keep. Runs under CPython and MicroPython."""

import struct

from tinygpt.core.engine.contract import Player
from tinygpt.core.engine.machine import Machine
from tinygpt.core.engine.memory import States
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.ops.record import RING
from tinygpt.core.ops.sample import CHOICE_WORDS, NO_NUMBER, OVER, STOP, STOPPED, WRITTEN
from tinygpt.core.plan.cpu.lowering import Lowered


class FakeMachine(Machine):
    name = "fake"

    def __init__(self):
        self.opened = []

    def lower(self, config, modes, **how):
        return Lowered(config, modes, **how)

    async def open(self, lowered):
        self.opened.append(FakePlayer(lowered))
        return self.opened[-1]


class FakePlayer(Player):
    threads = 3

    def __init__(self, lowered):
        self.lowered = lowered
        self.memory = bytearray(lowered.bytes())
        self.asked = []  # (mode, times) of every run
        self.rates = []  # (step, the rates it found)
        self.left = None  # runs until a stop is heard
        self.no_numbers = False
        self.log = []  # of an ahead player: what was asked for and read, in order
        self.closed = False

    def describe(self):
        return "a fake"

    def start(self, name):
        for tensor in self.lowered.tensors:
            if tensor.name == name:
                return self.lowered.places(tensor, 0, tensor.size)[0][1]
        raise KeyError(name)

    def shape(self, name):
        return {tensor.name: tensor.shape for tensor in self.lowered.tensors}[name]

    def get(self, name, at=0, kind="i"):
        return struct.unpack_from("<" + kind, self.memory, self.start(name) + 4 * at)[0]

    def set(self, name, at, value, kind="i"):
        struct.pack_into("<" + kind, self.memory, self.start(name) + 4 * at, value)

    async def write(self, places, data):
        data, at = bytes(data), 0
        for _, start, size in places:
            part = data[at : at + size]
            self.memory[start : start + len(part)] = part
            at += size

    async def read(self, places):
        return b"".join([bytes(self.memory[start : start + size]) for _, start, size in places])

    def begin_read(self, places):
        return b"".join([bytes(self.memory[start : start + size]) for _, start, size in places])

    async def end_read(self, begun):
        self.log.append("read")
        return begun

    async def run(self, mode, times):
        self.asked.append((mode, times))
        self.log.append(mode)
        for turn in range(times):
            if self.left == 0:
                return turn
            if self.left is not None:
                self.left -= 1
            getattr(self, "do_prefill" if mode.startswith("prefill_") else "do_" + mode)()
        return times

    async def close(self):
        self.closed = True

    def do_init(self):
        self.set("weights", 0, 1.5, "f")

    def do_train(self):
        """A step's loss is its number, its norm twice that."""
        done = self.get("counters")
        row = done % RING
        self.rates.append((done + 1, [self.get("rates", 3 * row + i, "f") for i in range(3)]))
        self.set("ring", 2 * row, done + 1.0, "f")
        self.set("ring", 2 * row + 1, 2 * (done + 1.0), "f")
        self.set("counters", 0, done + 1)
        self.set("counters", 1, 0)

    do_update = do_train

    def do_gradient(self):
        self.set("counters", 1, self.get("counters", 1) + 1)

    do_accumulate = do_gradient

    def do_validate(self):
        self.set("val_loss", 0, self.get("val_loss", 0, "f") + 0.25, "f")
        self.set("counters", 2, self.get("counters", 2) + 1)

    def do_eval(self):
        """A loss is its token and its target."""
        ends = [tensor.size for tensor in self.lowered.tensors if tensor.name == "tokens"]
        for i in range(ends[0]):
            self.set("losses", i, self.get("tokens", i) + self.get("targets", i) / 256, "f")

    def do_likeliest(self):
        """Behind a token the next one is the likeliest."""
        ends = [tensor.size for tensor in self.lowered.tensors if tensor.name == "tokens"]
        for i in range(ends[0]):
            self.set("best", i, self.get("tokens", i) + 1)

    def do_prefill(self):
        self.write_byte(self.get("row"))

    def do_decode(self):
        for row in range(self.shape("cursor")[0]):
            self.write_byte(row)

    def write_byte(self, row):
        """The byte behind place n is 65 + n."""
        if self.get("cursor", 2 * row + OVER):
            return
        if self.no_numbers:
            self.set("cursor", 2 * row + OVER, NO_NUMBER)
            return
        position, drawn = self.get("position", row), self.get("cursor", 2 * row + WRITTEN)
        byte = 65 + position
        self.set("written", row * self.shape("written")[1] + drawn, byte)
        self.set("token", row, byte)
        self.set("position", row, position + 1)
        self.set("cursor", 2 * row + WRITTEN, drawn + 1)
        if self.get("choice", CHOICE_WORDS * row + STOP + byte // 32) >> byte % 32 & 1:
            self.set("cursor", 2 * row + OVER, STOPPED)


def fake_engine(config):
    return ProgramEngine(config, FakeMachine(), States())
