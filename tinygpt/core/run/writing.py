"""How an engine writes: a prompt is read, then bytes are drawn, many for one call."""

import struct

from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import WRITING
from tinygpt.core.ops.op import float_bits, signed
from tinygpt.core.ops.sample import (
    CHOICE_WORDS,
    FIRST,
    NO_NUMBER,
    OVER,
    SEED,
    STOP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    WRITTEN,
)
from tinygpt.core.run.machine import Machine
from tinygpt.core.run.planned import PlannedEngine
from tinygpt.core.run.sampler import NOT_FINITE, NotFinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WritingEngine(PlannedEngine):
    def __init__(self, config: RunConfig, machine: Machine, state: "Any" = None, base: "Any" = None) -> None:
        PlannedEngine.__init__(self, config, machine, state, base)
        self.cached = 0  # rows of the KV cache that are filled
        self.drawn = 0  # bytes of the text that were taken from the player

    async def begin_text(self, window: bytes, settings: SampleConfig, first: int, stop: bytes) -> bytes:
        await self.read_prompt(window, settings, first, stop)
        return await self.new_bytes()

    async def read_prompt(self, window: bytes, settings: SampleConfig, first: int, stop: bytes) -> None:
        ctx = self.config.model.ctx
        if not 1 <= len(window) <= ctx:
            raise TinyGPTError(f"a prompt must have 1 to {ctx} bytes, not {len(window)}")
        await self.require(WRITING)
        await self.write_ints("prompt", list(window) + [0] * (ctx - len(window)))
        await self.write_ints("choice", choice_words(settings, first, stop))
        await self.start_at(len(window) - 1)
        await self.player.run("prefill", 1)
        self.cached = len(window)

    async def start_at(self, position: int) -> None:
        await self.write_ints("position", [position])
        await self.write_ints("cursor", [0, 0])
        self.drawn = 0

    async def continue_text(self, count: int) -> bytes:
        done = await self.player.run("decode", min(count, self.config.model.ctx - self.cached))
        self.cached += done
        return await self.new_bytes()

    async def new_bytes(self) -> bytes:
        """What was drawn since the last call."""
        cursor, written = self.tensor("cursor"), self.tensor("written")
        places = self.lowered.places(cursor, 0, cursor.size) + self.lowered.places(written, 0, written.size)
        words = struct.unpack(f"<{cursor.size + written.size}i", await self.player.read(places))
        before, self.drawn = self.drawn, words[WRITTEN]
        if words[OVER] == NO_NUMBER:
            raise NotFinite(NOT_FINITE)
        return bytes([words[cursor.size + place % written.size] for place in range(before, self.drawn)])

    async def prefill(self, tokens: bytes) -> "list[float]":
        await self.read_prompt(tokens, SampleConfig(temperature=0.0), 0, b"")
        return list(await self.read_floats("next_logits", 256))

    async def decode(self, token: int) -> "list[float]":
        if not 0 <= token < 256:
            raise TinyGPTError(f"a token must be a byte, 0 to 255, not {token}")
        if self.cached >= self.config.model.ctx:
            raise TinyGPTError(f"the context of {self.config.model.ctx} bytes is full; prefill again")
        await self.write_ints("token", [token])
        await self.start_at(self.cached)
        await self.player.run("decode", 1)
        self.cached += 1
        return list(await self.read_floats("next_logits", 256))


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
