"""The list of tensors in a model file: what they are called, their shapes, where they start."""

from __future__ import annotations

import math
from typing import Any

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.header import OUT_IN
from tinygpt.core.models.parameters import Parameter, is_linear_weight, parameters
from tinygpt.formats.strict_json import json_object, whole

IN_OUT = "in_out"
LARGEST_DIM = 2**31


def ordered_parameters(manifest: Any, model: ModelConfig, layout: str | None, arrays: int) -> list[Parameter]:
    """The parameters in the manifest's order, once every entry agrees with the config.

    A floatOffset may count the state's floats (w, m and v) or the weights' alone: both are in use.
    """
    expected = {row.name: row for row in parameters(model)}
    if not isinstance(manifest, list):
        raise TinyGPTError(f"manifest must be a list, not {manifest!r}")
    if len(manifest) != len(expected):
        raise TinyGPTError(f"manifest lists {len(manifest)} tensors, but the config's model has {len(expected)}")
    order: list[Parameter] = []
    strides = {1, arrays}
    offset = 0
    for index, raw in enumerate(manifest):
        entry = json_object(raw, f"manifest[{index}]")
        name = entry.get("name")
        row = expected.pop(name, None) if isinstance(name, str) else None
        if row is None:
            raise TinyGPTError(f"manifest[{index}].name {name!r} is no tensor of this model, or listed twice")
        check_shape(entry.get("shape"), row, layout)
        stated = whole(entry.get("floatOffset"), f"floatOffset of {name}")
        strides = {stride for stride in strides if stated == stride * offset}
        if not strides:
            raise TinyGPTError(f"floatOffset of {name} must be {arrays * offset}, not {stated}")
        order.append(row)
        offset += row.size
    return order


def check_shape(shape: Any, row: Parameter, layout: str | None) -> None:
    """Without a layout (a file of the original) a linear weight's stated shape tells nothing: take either."""
    if not isinstance(shape, list):
        raise TinyGPTError(f"shape of {row.name} must be a list, not {shape!r}")
    dims = tuple(whole(dim, f"a dimension of {row.name}", low=1, high=LARGEST_DIM) for dim in shape)
    allowed = {OUT_IN: [row.shape], IN_OUT: [row.shape[::-1]]}.get(layout or "", [row.shape, row.shape[::-1]])
    if not is_linear_weight(row.name):
        allowed = [row.shape]
    if dims not in allowed:
        size = math.prod(dims)
        raise TinyGPTError(f"shape of {row.name} must be {list(allowed[0])}, not {shape!r} ({size} floats)")
