"""How an engine writes: a prompt is read, then bytes are drawn, many for one call."""

import struct

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.memory import PlannedMemory
from tinygpt.core.errors import NOT_FINITE, NotFinite, TinyGPTError
from tinygpt.core.models.programs import WRITING, prefill_for
from tinygpt.core.ops.linear import FEW_ROWS
from tinygpt.core.ops.op import float_bits, signed
from tinygpt.core.ops.sample import (
    CHOICE_WORDS,
    FIRST,
    NO_NUMBER,
    OVER,
    SEED,
    STOP,
    STOPPED,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    WRITTEN,
)

MAX_TEXTS = FEW_ROWS - 1  # at once: so few that the sums of each are those that it has alone


class Texts:
    """The texts that an engine is writing, in rows of its memory."""

    def __init__(self, memory: PlannedMemory) -> None:
        self.memory = memory
        self.cached = [0]  # of each text, the bytes that it was read up to; 0 where there is none
        self.drawn = [0]  # and of its bytes, those that were taken from the player

    @property
    def ctx(self) -> int:
        return self.memory.config.model.ctx

    async def make_room(self, texts: int) -> None:
        if not 1 <= texts <= MAX_TEXTS:
            raise TinyGPTError(f"1 to {MAX_TEXTS} texts can be written at once, not {texts}")
        if texts != self.memory.texts:
            planned = [] if self.memory.lowered is None else self.memory.lowered.modes
            self.memory.texts = texts
            await self.memory.plan(planned + [mode for mode in WRITING if mode not in planned])
        await self.memory.require(WRITING)
        self.cached, self.drawn = [0] * texts, [0] * texts
        for row in range(texts):
            await self.drop(row)

    async def begin(self, window: bytes, settings: SampleConfig, first: int, stop: bytes, row: int = 0) -> bytes:
        await self.read_prompt(window, settings, first, stop, row)
        return finite((await self.new_bytes())[row])

    async def read_prompt(self, window: bytes, settings: SampleConfig, first: int, stop: bytes, row: int = 0) -> None:
        ctx = self.ctx
        if not 1 <= len(window) <= ctx:
            raise TinyGPTError(f"a prompt must have 1 to {ctx} bytes, not {len(window)}")
        await self.memory.require(WRITING)
        await self.memory.write_ints("prompt", list(window) + [0] * (ctx - len(window)))
        await self.memory.write_ints("row", [row])
        await self.memory.write_ints("choice", choice_words(settings, first, stop), row * CHOICE_WORDS)
        await self.start_at(len(window) - 1, row)
        await self.memory.player.run(prefill_for(len(window), self.memory.lowered.planned), 1)
        self.cached[row] = len(window)

    async def start_at(self, position: int, row: int, over: int = 0) -> None:
        await self.memory.write_ints("position", [position], row)
        await self.memory.write_ints("cursor", [0, over], 2 * row)
        self.drawn[row] = 0

    async def drop(self, row: int) -> None:
        self.cached[row] = 0
        await self.start_at(0, row, STOPPED)

    async def continue_one(self, count: int) -> bytes:
        return finite((await self.continue_all(min(count, self.ctx - self.cached[0])))[0])

    async def continue_all(self, count: int) -> "list[bytes | None]":
        if max(self.cached) + count > self.ctx:
            raise TinyGPTError(f"a window has no room for {count} more bytes; this is a bug")
        done = await self.memory.player.run("decode", count)
        self.cached = [cached + done if cached else 0 for cached in self.cached]
        return await self.new_bytes()

    async def new_bytes(self) -> "list[bytes | None]":
        """What was drawn since the last call, for each text; None where it cannot go on."""
        cursor, written = self.memory.tensor("cursor"), self.memory.tensor("written")
        places = self.memory.lowered.places(cursor, 0, cursor.size) + self.memory.lowered.places(
            written, 0, written.size
        )
        words = struct.unpack(f"<{cursor.size + written.size}i", await self.memory.player.read(places))
        room, made = written.shape[1], []
        for row in range(self.memory.texts):
            first, before = cursor.size + row * room, self.drawn[row]
            self.drawn[row] = words[2 * row + WRITTEN]
            drawn = bytes([words[first + place % room] for place in range(before, self.drawn[row])])
            made.append(None if words[2 * row + OVER] == NO_NUMBER else drawn)
        return made

    async def prefill(self, tokens: bytes) -> "list[float]":
        await self.read_prompt(tokens, SampleConfig(temperature=0.0), 0, b"")
        return list(await self.memory.read_floats("prompt_logits", 256))

    async def decode(self, token: int) -> "list[float]":
        if not 0 <= token < 256:
            raise TinyGPTError(f"a token must be a byte, 0 to 255, not {token}")
        if self.cached[0] >= self.ctx:
            raise TinyGPTError(f"the context of {self.ctx} bytes is full; prefill again")
        await self.memory.write_ints("token", [token])
        await self.start_at(self.cached[0], 0)
        await self.memory.player.run("decode", 1)
        self.cached[0] += 1
        return list(await self.memory.read_floats("next_logits", 256))


def finite(made: "bytes | None") -> bytes:
    if made is None:
        raise NotFinite(NOT_FINITE)
    return made


def choice_words(settings: SampleConfig, first: int, stop: bytes) -> "list[int]":
    """How bytes are to be drawn, as the kernel `sample` takes it."""
    words = [0] * CHOICE_WORDS
    words[SEED] = settings.seed
    words[FIRST] = first
    words[TEMPERATURE] = float_bits(settings.temperature)
    words[TOP_P] = float_bits(settings.top_p)
    words[TOP_K] = settings.top_k
    for byte in stop:
        words[STOP + byte // 32] |= 1 << (byte % 32)
    return [signed(word) for word in words]
