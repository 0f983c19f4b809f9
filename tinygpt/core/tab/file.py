"""Model files in a browser tab: core says what is in one; its floats never leave JavaScript.

Everything crosses as JSON text but the file's own header. web/src/engine/modelfile.ts is the other side.
"""

import json

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.front import DAMAGED, NOT_FINITE, Piece, header_length, read_front
from tinygpt.core.file.header import left_out_sentence
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.optimizers import slot_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def measure(request: str) -> str:
    """Of {"prefix", "size"}: {"length"} of the header, or {"error"}."""
    asked = json.loads(request)
    try:
        return json.dumps({"length": header_length(bytes(asked["prefix"]), asked["size"])})
    except TinyGPTError as error:
        return json.dumps({"error": str(error)})


def front(request: str, header: str) -> str:
    """Of {"prefix", "step", "size"} and the header that JSON.parse took: what `facts` states, or {"error"}."""
    asked = json.loads(request)
    try:
        return json.dumps(facts(bytes(asked["prefix"]), header, bytes(asked["step"]), asked["size"]))
    except TinyGPTError as error:
        return json.dumps({"error": str(error)})
    except MemoryError:
        return json.dumps({"error": "the header takes more memory than the page has for one"})


def facts(prefix: bytes, header: str, step: bytes, size: int) -> "dict[str, Any]":
    found = read_front(prefix, header, step, size)
    run = found.run
    own = slot_names(run.config.train)
    return {
        "config": run.config.as_dict(),
        "progress": run.progress.as_dict(),
        "leftOut": left_out_sentence(run.left_out),
        "parameters": parameter_count(run.config.model),
        "floatBytes": 2 if found.dtype == "float16" else 4,
        "arrays": 1 + len(found.slots),
        "slots": found.slots,
        "vectors": 1 + len(own),
        "taken": 1 + (len(own) if found.slots == own else 0),
        "sha256": found.sha256,
        "pieces": [move_of(piece) for piece in found.pieces],
        "damaged": DAMAGED,
        "notFinite": NOT_FINITE,
    }


def move_of(piece: Piece) -> "list[Any]":
    """Name; place in the file, in bytes; place in the model's order and size, in floats; rows and columns to turn it
    to, or 0; how many rows are scaled, each by a number of its own."""
    rows, columns = piece.shape if piece.turned else (0, 0)
    return [piece.name, piece.at, piece.offset, piece.size, rows, columns, piece.shape[0] if piece.scaled else 0]
