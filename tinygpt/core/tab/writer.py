"""What a model writes in a tab, piece by piece, and how likely it finds each byte that could come next."""

import json

from tinygpt.core.config import SampleConfig
from tinygpt.core.write.sampler import candidates, generate, require_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


async def write(worker: "Any", engine: "Any", asked: "dict[str, Any]") -> None:
    """Pieces as they are made, until the page wants no more; the last one is empty."""
    settings, began = SampleConfig(**asked["settings"]), worker.now()
    stops = (asked["stop"].encode(),) if asked.get("stop") else ()

    def tell(made: bytes, done: bool = False) -> bool:
        return bool(worker.written(json.dumps([list(made), worker.now() - began, done])))

    await generate(engine, engine.config.model.ctx, bytes(asked["prompt"]), settings, stops, tell, worker.now)
    tell(b"", True)


async def weigh(worker: "Any", engine: "Any", asked: "dict[str, Any]") -> None:
    """All bytes that could be drawn next, the most likely first."""
    prompt = bytes(asked["prompt"])[-engine.config.model.ctx :] or b"\n"
    order, weights = candidates(require_finite(await engine.prefill(prompt)), SampleConfig(**asked["settings"]))
    total = sum(weights)
    likely = [[order[i], weights[i] / total] for i in range(len(order))]
    worker.weighed(json.dumps(likely))
