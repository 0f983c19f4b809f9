"""Files of models and of adapters in a browser tab: core says what is in one; its floats never leave JavaScript."""

import json

from tinygpt.core.config import run_config_of
from tinygpt.core.edited import EDIT, other_edit
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file import adapter
from tinygpt.core.file.front import DAMAGED, NOT_FINITE, PREFIX_BYTES, STEP_BYTES, Piece, header_length, read_front
from tinygpt.core.file.header import array_bytes, encode_run, encode_state, left_out_sentence
from tinygpt.core.file.tables import bitmap_bytes
from tinygpt.core.models.adapters import merges, trained_count
from tinygpt.core.models.memory import table_shape
from tinygpt.core.optimizers import slot_names
from tinygpt.core.train.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def measure(request: str) -> str:
    """Where the header is."""
    asked = json.loads(request)
    prefix = bytes(asked["prefix"])
    try:
        if adapter.is_tensors(prefix):
            length = adapter.header_length(prefix, asked["size"])
            return json.dumps({"start": adapter.LENGTH_BYTES, "length": length})
        return json.dumps({"start": PREFIX_BYTES, "length": header_length(prefix, asked["size"])})
    except TinyGPTError as error:
        return json.dumps({"error": str(error)})


def front(request: str, header: str) -> str:
    """All that a file says; its header is one that JSON.parse took."""
    asked = json.loads(request)
    prefix = bytes(asked["prefix"])
    try:
        if adapter.is_tensors(prefix):
            length = adapter.header_length(prefix, asked["size"])
            return json.dumps(adapter_facts(header, asked["size"] - adapter.LENGTH_BYTES - length))
        return json.dumps(model_facts(prefix, header, bytes(asked["step"]), asked["size"]))
    except TinyGPTError as error:
        return json.dumps({"error": str(error)})
    except MemoryError:
        return json.dumps({"error": "the header takes more memory than the page has for one"})


def model_facts(prefix: bytes, header: str, step: bytes, size: int) -> "dict[str, Any]":
    found = read_front(prefix, header, step, size)
    pieces = [move_of(piece, found.dtype, 1 + len(found.slots)) for piece in found.pieces]
    facts = facts_of(found.run, found.slots, pieces)
    if found.run.config.model.ngram_tables:
        facts["tables"] = table_facts(found)
    facts.update({"floatBytes": 2 if found.dtype == "float16" else 4, "sha256": found.sha256, "dtype": found.dtype})
    return facts


def table_facts(found: "Any") -> "dict[str, Any]":
    """Where the n-gram tables are (core/file/tables.py)."""
    model, arrays = found.run.config.model, 1 + len(found.slots)
    rows, width = table_shape(model)
    return {
        "at": STEP_BYTES + arrays * array_bytes(model, found.dtype),
        "bitmap": bitmap_bytes(model),
        "rows": rows,
        "width": width,
        "stored": found.stored_rows,
    }


def adapter_facts(header: str, data_bytes: int) -> "dict[str, Any]":
    found = adapter.read_front(header, data_bytes)
    pieces = [[row.name, places, row.offset, row.size, 0, 0, 0] for row, places in found.pieces]
    facts = facts_of(found.run, found.slots, pieces)
    facts["adapter"] = {"name": found.name, "baseSha256": found.base_sha256}
    return facts


def facts_of(run: "Any", slots: "tuple[str, ...]", pieces: "list[Any]") -> "dict[str, Any]":
    own = slot_names(run.config.train)
    return {
        "config": run.config.as_dict(),
        "progress": run.progress.as_dict(),
        "leftOut": left_out_sentence(run.left_out) if run.edit == EDIT else other_edit(run.edit, EDIT),
        "parameters": trained_count(run.config),
        "floatBytes": 4,
        "dtype": "float32",
        "arrays": 1 + len(slots),
        "slots": slots,
        "vectors": 1 + len(own),
        "taken": 1 + (len(own) if slots == own else 0),
        "sha256": "",
        "pieces": pieces,
        "damaged": DAMAGED,
        "notFinite": NOT_FINITE,
        "adapter": None,
        "tables": None,
        "learnt": learnt_from(run.data),
    }


def learnt_from(data: "dict[str, Any]") -> "dict[str, str] | None":
    """The text that a file says its model learnt from; None where it does not say."""
    name, sha256 = data.get("name"), data.get("sha256")
    return {"name": name, "sha256": sha256} if isinstance(name, str) and isinstance(sha256, str) else None


def move_of(piece: Piece, dtype: str, arrays: int) -> "list[Any]":
    """protocol.pyi's Piece."""
    rows, columns = piece.shape if piece.turned else (0, 0)
    each = (2 if dtype == "float16" else 4) * piece.size  # scaled ones have a single array
    places = [STEP_BYTES + piece.at + array * each for array in range(arrays)]
    return [piece.name, places, piece.offset, piece.size, rows, columns, piece.shape[0] if piece.scaled else 0]


def alone(request: str, header: str, dtype: str) -> str:
    """The header of a file with the weights of that one and nothing else, in this dtype."""
    asked = json.loads(request)
    run = read_front(bytes(asked["prefix"]), header, bytes(asked["step"]), asked["size"]).run
    stated = encode_run(run.config, run.progress, run.backend, run.data, run.lora, run.saved_at, run.origin, run.edit)
    stated.update(encode_state(run.config.model, (), "", dtype))
    return json.dumps(stated)


def merging(config: str) -> str:
    """What makes a plain model of one with adapters: W += B A scale."""
    run = run_config_of(json.loads(config))
    assert run.lora is not None
    moves = [
        [base.offset, a.offset, b.offset, b.shape[0], a.shape[1], a.shape[0]]
        for base, a, b in merges(run.model, run.lora)
    ]
    return json.dumps({"scale": run.lora.scale, "moves": moves})


def merged_header(request: str) -> str:
    """The header of the plain model that adapters make of their base."""
    asked = json.loads(request)
    run = run_config_of(asked["config"])
    assert run.lora is not None
    lora = adapter.encode_lora(asked["name"], asked["baseSha256"], run.lora)
    stated = encode_run(run, Progress.from_dict(asked["progress"]), "", {}, lora, "")
    stated.update(encode_state(run.model, (), ""))
    return json.dumps(stated)
