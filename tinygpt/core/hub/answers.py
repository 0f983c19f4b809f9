"""What the datasets server says, checked: an answer of another shape than it documents is one clear sentence."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.text import whole_characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    D = TypeVar("D")

LONGEST_NAME = 500  # characters of a config, a split or a column
STRINGS = ("string", "large_string")
LISTS = ("Sequence", "List", "LargeList")

TEXT, LINES, OTHER = "text", "lines", "other"  # a string, a list of strings, anything else


class Split:
    def __init__(self, config: str, name: str) -> None:
        self.config = config
        self.name = name


class Row:
    def __init__(self, cells: "dict[str, Any]", truncated: "list[Any]") -> None:
        self.cells = cells
        self.truncated = truncated  # names of columns whose cells the server cut short


class Page:
    def __init__(self, columns: "list[tuple[str, str]]", rows: "list[Row]", total: "int | None", partial: bool) -> None:
        self.columns = columns  # the name and the kind of each
        self.rows = rows
        self.total = total
        self.partial = partial  # the server has only the beginning of the split


class Misshapen(Exception):
    """Says which part of an answer is not what it should be."""


def read_splits(dataset: str, answer: object) -> "list[Split]":
    return checked(dataset, lambda: [split(item) for item in optional(answer, "splits", list, [])])


def read_page(dataset: str, answer: object) -> Page:
    return checked(dataset, lambda: page(answer))


def checked(dataset: str, read: "Callable[[], T]") -> "T":
    try:
        return read()
    except Misshapen as fault:
        raise TinyGPTError(  # noqa: B904 (MicroPython shows the first line of a chain)
            f"The datasets server's answer about {dataset} makes no sense ({fault}): "
            "try again later, or take another dataset."
        )


def split(item: object) -> Split:
    return Split(name(item, "config"), name(item, "split"))


def page(answer: object) -> Page:
    features = optional(answer, "features", list, [])
    return Page(
        columns=[(name(feature, "name"), kind(part(feature, "type", object))) for feature in features],
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
    # A lone surrogate can be neither sent nor printed, and what is printed may not steer a terminal.
    return "".join(
        ["?" if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in whole_characters(text)]
    )


def part(item: object, key: str, kind: "type[T]") -> "T":
    if not isinstance(item, dict):
        raise Misshapen(f"no object that holds '{key}'")
    if key not in item or not isinstance(item[key], kind):
        raise Misshapen(f"'{key}' is missing or of a wrong kind")
    value: T = item[key]
    return value


def optional(item: object, key: str, kind: "type[T]", default: "D") -> "T | D":
    if isinstance(item, dict) and item.get(key) is None:
        return default
    return part(item, key, kind)
