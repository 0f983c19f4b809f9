"""What a model writes in a tab, piece by piece, and how likely it finds each byte that could come next.

What crosses is JSON; bytes are numbers, for a piece may end within a character.
"""

import json

from tinygpt.core.config import SampleConfig
from tinygpt.core.run.sampler import candidates, generate, require_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


async def write(page: "Any", engine: "Any", asked: "dict[str, Any]") -> None:
    """Of {"id", "prompt", "settings", "stop"}: pieces as they are made, [id, bytes, seconds since it was asked for,
    whether it is done], until the page wants no more. Nothing is its own piece once it is done."""
    settings, began = SampleConfig(**asked["settings"]), page.now()
    stops = (asked["stop"].encode(),) if asked.get("stop") else ()

    def tell(made: bytes, done: bool = False) -> bool:
        return bool(page.written(json.dumps([asked["id"], list(made), page.now() - began, done])))

    await generate(engine, engine.config.model.ctx, bytes(asked["prompt"]), settings, stops, tell, page.now)
    tell(b"", True)


async def weigh(page: "Any", engine: "Any", asked: "dict[str, Any]") -> None:
    """Of {"id", "prompt", "settings"}: [id, [[byte, probability], …]] of all that could be drawn next, the likeliest
    first."""
    prompt = bytes(asked["prompt"])[-engine.config.model.ctx :] or b"\n"
    order, weights = candidates(require_finite(await engine.prefill(prompt)), SampleConfig(**asked["settings"]))
    total = sum(weights)
    likely = [[order[i], weights[i] / total] for i in range(len(order))]
    page.weighed(json.dumps([asked["id"], likely]))
