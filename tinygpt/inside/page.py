"""What was seen of a model as one page: it needs nothing else, asks nothing of a network, and never takes a text's
letters for markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tinygpt.engines.base import FloatArray
    from tinygpt.inside.look import Look, Seen

HERE = Path(__file__).parent
LARGEST_IMAGE = 512  # rows, and columns, of a tensor's picture


def page_of(look: Look) -> str:
    return filled("look", packed(look))


def filled(name: str, values: dict[str, Any]) -> str:
    """The page of that name with its style, its script and what it shows."""
    style, script = ((HERE / f"{name}.{suffix}").read_text(encoding="utf-8") for suffix in ("css", "js"))
    data = json.dumps(values, allow_nan=False).replace("<", "\\u003c")
    parts = {"style": style, "script": script, "data": data}
    parts |= {"style_hash": hash_of(style), "script_hash": hash_of(script)}
    template = (HERE / f"{name}.html").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda place: parts[place[1]], template)


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def packed(look: Look) -> dict[str, Any]:
    """The same data, its many small numbers as bytes."""
    inside = dict(look.data["inside"])
    inside["attention"] = [[bytes_of(triangle) for triangle in layer] for layer in inside["attention"]]
    inside["next"] = [base64_of(np.rint(65535 * np.array(row)).astype("<u2")) for row in inside["next"]]
    return {**look.data, "inside": inside, "tensors": [{**seen.as_data(), **image_of(seen)} for seen in look.tensors]}


def bytes_of(triangle: list[list[float]]) -> str:
    return base64_of(np.rint(255 * np.concatenate([np.array(row) for row in triangle])).astype(np.uint8))


def base64_of(values: Any) -> str:
    return base64.b64encode(values.tobytes()).decode()


def image_of(seen: Seen) -> dict[str, Any]:
    """As bytes: 127 is 0, and 0 and 254 are the largest size; a large tensor every n-th row and column."""
    matrix = as_matrix(seen.values)
    top = float(np.abs(matrix).max(initial=0)) or 1.0
    levels = np.rint(127 + 127 * matrix / top).astype(np.uint8)
    return {"image": base64_of(np.ascontiguousarray(levels)), "rows": levels.shape[0], "columns": levels.shape[1]}


def as_matrix(values: FloatArray) -> FloatArray:
    """For a picture, with 0 for what is no number."""
    matrix = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)
    rows, columns = (-(-size // LARGEST_IMAGE) for size in matrix.shape)
    return np.nan_to_num(matrix[::rows, ::columns], nan=0.0, posinf=0.0, neginf=0.0)
