"""A page of one file (docs/share.md): what it must know of its model to write, planned ahead, for it has no Python."""

import json

from tinygpt.core.config import run_config_of
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import TABLES
from tinygpt.core.models.programs import WRITING
from tinygpt.core.plan.cpu.lowering import COMPACT, Lowered
from tinygpt.core.tab.engine import check_depth
from tinygpt.core.tab.file import front, measure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXCHANGED = ("prompt", "row", "choice", "position", "cursor", "written")  # what an engine's texts.py writes and reads


def writing_plan(request: str, header: str) -> str:
    """`front` of the file that is in the page, the programs that write, and where the page finds what they share."""
    stated = json.loads(front(request, header))
    if "error" in stated:
        return json.dumps(stated)
    if stated["adapter"] is not None:
        return json.dumps({"error": "an adapter is only a part of a model: merge it into its model first"})
    config = run_config_of(stated["config"])
    try:
        check_depth(config.model)
        lowered = Lowered(config, list(WRITING), compact=stated["dtype"] if stated["dtype"] in COMPACT else "")
    except TinyGPTError as error:
        return json.dumps({"error": str(error)})
    tensors = {tensor.name: tensor for tensor in lowered.tensors}

    def places(name: str) -> "list[list[int]]":
        return lowered.places(tensors[name], 0, tensors[name].size) if name in tensors else []

    compact = lowered.memory.compact is not None
    stated["sha256"] = ""  # the page's own packing has a checksum, and not every address lets a page compute this one
    plan: dict[str, Any] = {
        "front": stated,
        "header": json.loads(measure(request)),
        "playbook": lowered.playbook(),
        "compact": compact,
        "weights": (lowered.compact_places() if compact else lowered.file_places([lowered.memory.weights]))
        + places(TABLES),
        "exchanged": {name: places(name)[0] for name in EXCHANGED},
        "ctx": config.model.ctx,
        "room": tensors["written"].shape[1],
    }
    return json.dumps(plan)
