"""From logits to bytes, and the generation loop over an engine's KV cache."""

import math

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.rate import HEARD, Rate
from tinygpt.core.errors import NOT_FINITE, NotFinite

BLOCK = 64  # bytes to ask an engine for at once, at most

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def require_finite(logits: list[float]) -> list[float]:
    total = sum(logits)
    if total - total != 0:
        raise NotFinite(NOT_FINITE)
    return logits


def choose(logits: list[float], settings: SampleConfig, uniform: float) -> int:
    """The next byte. `uniform` in [0, 1) decides among what temperature, top-k and top-p leave."""
    order, weights = candidates(logits, settings)
    target = uniform * sum(weights)
    for i in range(len(order)):
        target -= weights[i]
        if target < 0.0:
            return order[i]
    return order[-1]  # rounding left a sliver above the last candidate


def candidates(logits: list[float], settings: SampleConfig) -> "tuple[list[int], list[float]]":
    """The bytes that temperature, top-k and top-p leave, and their weights.

    They stand in order of falling logit, equal ones by byte, so the choice is the same everywhere.
    """
    # Pairs and not a key: MicroPython would call the key at every comparison.
    order = [byte for _, byte in sorted([(-logits[byte], byte) for byte in range(len(logits))])]
    if settings.temperature == 0.0:
        return order[:1], [1.0]
    if settings.top_k:
        order = order[: settings.top_k]
    top = logits[order[0]]
    weights = [math.exp((logits[byte] - top) / settings.temperature) for byte in order]
    kept = nucleus(weights, settings.top_p)
    return order[:kept], weights[:kept]


def nucleus(weights: list[float], top_p: float) -> int:
    """How many of the weights (falling) it takes to reach the share top_p: at least one."""
    goal = top_p * sum(weights)
    reached = 0.0
    for i in range(len(weights)):
        reached += weights[i]
        if reached >= goal:
            return i + 1
    return len(weights)


class Continuation:
    """What is written behind a prompt, as far as it is; it ends early behind the first of `stops` that is written.

    Positions are absolute, so a full window cannot slide by one: it restarts from its newer half.
    """

    def __init__(self, ctx: int, prompt: bytes, settings: SampleConfig, stops: "tuple[bytes, ...]" = ()) -> None:
        self.ctx = ctx
        self.settings = settings
        self.stops = stops
        self.stop_bytes = b"".join([stop for stop in stops if len(stop) == 1])  # at these the engine itself stops
        self.seen = bytes(prompt[-ctx:]) or b"\n"
        self.cached = 0  # bytes that the engine has read
        self.out = b""
        self.ended = False

    def must_read(self) -> bool:
        """Whether an engine must read a window before it goes on."""
        return not 0 < self.cached < self.ctx

    async def begin(self, engine: "Any", row: int = 0) -> bytes:
        """Have a window read: the byte that follows it."""
        if self.cached:
            self.seen = self.seen[-(self.ctx // 2 + 1) :]
        self.cached = len(self.seen)
        return self.take(await engine.begin_text(self.seen, self.settings, len(self.out), self.stop_bytes, row))

    def room(self) -> int:
        """How many bytes an engine can be asked for."""
        return min(BLOCK, self.settings.tokens - len(self.out), self.ctx - self.cached)

    def go_on(self, made: bytes) -> bytes:
        """The engine has read what it knew, and made these."""
        self.cached += len(made)
        return self.take(made)

    def take(self, made: bytes) -> bytes:
        """Of what was made, all that belongs to the text."""
        end = behind_stop(self.out, made, self.stops)
        if end:
            made = made[:end]
        self.out += made
        self.seen = (self.seen + made)[-self.ctx :]
        self.ended = self.ended or end > 0 or not made or len(self.out) == self.settings.tokens
        return bytes(made)


class Text(Continuation):
    """A continuation that an engine writes, block by block."""

    def __init__(
        self, engine: "Any", ctx: int, prompt: bytes, settings: SampleConfig, stops: "tuple[bytes, ...]" = ()
    ) -> None:
        Continuation.__init__(self, ctx, prompt, settings, stops)
        self.engine = engine
        self.rate = Rate()

    async def more(self, now: "Callable[[], float] | None" = None) -> bytes:
        """The next bytes; none once it has ended. With a clock so many at a time that a reader sees them flow, and that
        a stop is heard."""
        if self.ended:
            return b""
        if self.must_read():
            return await self.begin(self.engine)
        if now is None:
            return self.go_on(await self.engine.continue_text(self.room()))
        began = now()
        made = await self.engine.continue_text(self.rate.fitting(HEARD, self.room()))
        self.rate.add(len(made), now() - began)
        return self.go_on(made)


async def generate(
    engine: "Any",
    ctx: int,
    prompt: bytes,
    settings: SampleConfig,
    stops: "tuple[bytes, ...]" = (),
    on_bytes: "Callable[[bytes], Any] | None" = None,
    now: "Callable[[], float] | None" = None,
) -> bytes:
    """The whole of a Text. `on_bytes` sees bytes as they come and ends it by returning False."""
    text = Text(engine, ctx, prompt, settings, stops)
    made = await text.more(now)
    while made:
        if on_bytes is not None and on_bytes(made) is False:
            break
        made = await text.more(now)
    return text.out


def behind_stop(before: bytes, made: bytes, stops: "tuple[bytes, ...]") -> int:
    """How many bytes of what was just made end with the first stop in it, which may have begun before; 0: none does."""
    first = 0
    for stop in stops:
        carried = before[len(before) - min(len(before), len(stop) - 1) :]
        at = (carried + made).find(stop)
        if at >= 0:
            end = at + len(stop) - len(carried)
            first = min(first, end) if first else end
    return first
