"""JSON as other languages read it too (no NaN), and parsing that survives hostile text."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import numpy as np

from tinygpt.core.errors import TinyGPTError

Json = dict[str, Any]

LONGEST_HEADER = 4 << 20  # bytes; the largest model a config allows needs half of it
LONGEST_INTEGER = 20  # digits; what float() and str() take without a fault of their own
DEEPEST = 16  # levels kept of a free-form value


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


def parse_object(raw: bytes | str, what: str) -> Json:
    """Text nested too deeply raises RecursionError, which `faults_of` puts into words."""
    try:
        value = json.loads(raw, parse_int=short_integer, parse_constant=refuse_constant)
    except UnicodeDecodeError:
        raise TinyGPTError(f"{what} is not UTF-8 text") from None
    except ValueError as fault:
        raise TinyGPTError(f"{what} is broken JSON ({fault})") from None
    return json_object(value, what)


def short_integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def json_object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise TinyGPTError(f"{what} must be a JSON object, not {value!r}")
    return value


def whole(value: Any, what: str, low: int = 0, high: int = 2**53) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TinyGPTError(f"{what} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise TinyGPTError(f"{what} must be from {low} to {high}, not {value}")
    return value


def number_or_none(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TinyGPTError(f"{what} must be a number or null, not {value!r}")
    return float(value) if math.isfinite(value) else None


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TinyGPTError(f"{what} must be text, not {value!r}")
    return value.encode("utf-8", "replace").decode()  # a lone surrogate could not be printed


def free_form(value: Any, what: str) -> Json:
    """An object that is kept as it is, if it is shallow enough for every later walk over it."""
    require_shallow(json_object(value, what), what, DEEPEST)
    return dict(value)


def require_shallow(value: Any, what: str, levels: int) -> None:
    if not isinstance(value, (dict, list)):
        return
    if levels == 0:
        raise TinyGPTError(f"{what} is nested too deeply")
    for item in value.values() if isinstance(value, dict) else value:
        require_shallow(item, what, levels - 1)
