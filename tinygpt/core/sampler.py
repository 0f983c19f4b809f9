"""From logits to bytes, and the generation loop over an engine's KV cache."""

import math

from tinygpt.core.config import SampleConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.rng import sample_uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class NotFinite(TinyGPTError):
    """The model's own numbers have overflowed: there is nothing to choose from."""


def require_finite(logits: list[float]) -> list[float]:
    total = sum(logits)
    if total - total != 0:
        raise NotFinite("the model's logits are not finite, so it can write nothing: its weights are too large")
    return logits


def choose(logits: list[float], settings: SampleConfig, uniform: float) -> int:
    """The next byte. `uniform` in [0, 1) decides among what temperature, top-k and top-p leave.

    Candidates stand in order of falling logit, equal ones by byte, so the choice is the same everywhere.
    """
    # Pairs and not a key: MicroPython would call the key at every comparison.
    order = [byte for _, byte in sorted([(-logits[byte], byte) for byte in range(len(logits))])]
    if settings.temperature == 0.0:
        return order[0]
    if settings.top_k:
        order = order[: settings.top_k]
    top = logits[order[0]]
    weights = [math.exp((logits[byte] - top) / settings.temperature) for byte in order]
    kept = nucleus(weights, settings.top_p)
    target = uniform * sum(weights[:kept])
    for i in range(kept):
        target -= weights[i]
        if target < 0.0:
            return order[i]
    return order[kept - 1]  # rounding left a sliver above the last candidate


def nucleus(weights: list[float], top_p: float) -> int:
    """How many of the weights (falling) it takes to reach the share top_p: at least one."""
    goal = top_p * sum(weights)
    reached = 0.0
    for i in range(len(weights)):
        reached += weights[i]
        if reached >= goal:
            return i + 1
    return len(weights)


async def generate(
    engine: "Any",
    ctx: int,
    prompt: bytes,
    settings: SampleConfig,
    stop_bytes: bytes = b"",
    on_byte: "Callable[[int], Any] | None" = None,
) -> bytes:
    """The bytes that follow `prompt`; ends early behind a byte of `stop_bytes`.

    `on_byte` sees each byte as it comes and ends the generation by returning False. Positions are
    absolute, so a full window cannot slide by one: it restarts from its newer half.
    """
    window = bytes(prompt[-ctx:]) or b"\n"
    logits = require_finite(await engine.prefill(window))
    out = bytearray()
    while len(out) < settings.tokens:
        byte = choose(logits, settings, sample_uniform(settings.seed, len(out)))
        out.append(byte)
        if (on_byte is not None and on_byte(byte) is False) or byte in stop_bytes:
            break
        if len(out) == settings.tokens:
            break
        if len(window) < ctx:
            window += bytes([byte])
            logits = require_finite(await engine.decode(byte))
        else:
            window = window[len(window) - ctx // 2 :] + bytes([byte])
            logits = require_finite(await engine.prefill(window))
    return bytes(out)
