"""What the datasets server says, checked: an answer of another shape than it documents is one clear sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tinygpt.core.errors import TinyGPTError

LONGEST_NAME = 500  # characters of a config, a split or a column
STRINGS = ("string", "large_string")
LISTS = ("Sequence", "List", "LargeList")

TEXT, LINES, OTHER = "text", "lines", "other"  # a string, a list of strings, anything else

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class Split:
    config: str
    name: str


@dataclass(frozen=True)
class Row:
    cells: dict[str, Any]
    truncated: list[Any]  # names of columns whose cells the server cut short


@dataclass(frozen=True)
class Page:
    columns: dict[str, str]  # the kind of each, by name
    rows: list[Row]
    total: int | None
    partial: bool  # the server has only the beginning of the split


class Misshapen(Exception):
    """Says which part of an answer is not what it should be."""


def read_splits(dataset: str, answer: object) -> list[Split]:
    return checked(dataset, lambda: [split(item) for item in optional(answer, "splits", list, [])])


def read_page(dataset: str, answer: object) -> Page:
    return checked(dataset, lambda: page(answer))


def checked(dataset: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except Misshapen as fault:
        raise TinyGPTError(
            f"The datasets server's answer about {dataset} makes no sense ({fault}): "
            "try again later, or take another dataset."
        ) from None


def split(item: object) -> Split:
    return Split(name(item, "config"), name(item, "split"))


def page(answer: object) -> Page:
    features = optional(answer, "features", list, [])
    return Page(
        columns={name(feature, "name"): kind(part(feature, "type", object)) for feature in features},
        rows=[row(item) for item in part(answer, "rows", list)],
        total=optional(answer, "num_rows_total", int, None),
        partial=optional(answer, "partial", bool, False),
    )


def row(item: object) -> Row:
    return Row(part(item, "row", dict), optional(item, "truncated_cells", list, []))


def kind(feature: object) -> str:
    """A list is written `[feature]` or as an object that says so, depending on the age of the dataset's card."""
    if isinstance(feature, list):
        inner = feature[0] if len(feature) == 1 else None
    elif isinstance(feature, dict) and feature.get("_type") in LISTS:
        inner = feature.get("feature")
    else:
        return TEXT if is_string(feature) else OTHER
    return LINES if is_string(inner) else OTHER


def is_string(feature: object) -> bool:
    return isinstance(feature, dict) and feature.get("dtype") in STRINGS


def name(item: object, key: str) -> str:
    text = part(item, key, str)
    if len(text) > LONGEST_NAME:
        raise Misshapen(f"a {key} of {len(text)} characters")
    return text.encode("utf-8", "replace").decode()  # a lone surrogate can be neither sent nor printed


def part(item: object, key: str, kind: type[T]) -> T:
    if not isinstance(item, dict):
        raise Misshapen(f"no object that holds {key!r}")
    if key not in item or not isinstance(item[key], kind):
        raise Misshapen(f"{key!r} is missing or of a wrong kind")
    value: T = item[key]
    return value


def optional(item: object, key: str, kind: type[T], default: D) -> T | D:
    if isinstance(item, dict) and item.get(key) is None:
        return default
    return part(item, key, kind)
