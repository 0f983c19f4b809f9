"""What we write as JSON: only what every language reads."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

Json = dict[str, Any]


def dumps(value: Json, indent: int | None = None) -> str:
    """ASCII text, the same for the same value; NaN and infinities become null."""
    return json.dumps(plain(value), allow_nan=False, indent=indent)


def plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
