"""JSON of strangers: the same values, or a refusal, in both interpreters.

MicroPython's own reader also takes texts that are no JSON, so in the tab JavaScript's has to take them first.
"""

import json

from tinygpt.core.errors import TinyGPTError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

LONGEST_TEXT = 4 << 20  # bytes; the header of the largest model that a config allows takes half of it
MOST_VALUES = 1 << 17  # that header has three quarters of it
LONGEST_NUMBER = 40  # characters; a float is written with less
DEEPEST = 16  # levels of lists and objects
LARGEST_WHOLE = 2**53  # above, floats have gaps
LONGEST_QUOTE = 60  # characters


def parse_object(text: str, what: str) -> "Json":
    """The object that `text` states, sure to be small, shallow, and without a key that is there twice."""
    if text.count('"') > 4 * MOST_VALUES:
        raise TinyGPTError(f"{what} states more than {MOST_VALUES} values")
    # Without escapes every quote begins or ends a string, and every other piece lies outside of them.
    outside = " ".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    if outside.count(",") + outside.count("[") + outside.count("{") > MOST_VALUES:
        raise TinyGPTError(f"{what} states more than {MOST_VALUES} values")
    check_words(outside, what)
    try:
        value = json.loads(text)
    except RuntimeError:  # CPython's recursion; MicroPython needs none here
        raise TinyGPTError(f"{what} is nested too deeply") from None
    except ValueError as fault:
        raise TinyGPTError(f"{what} is broken JSON ({fault})") from None
    if count_keys(value, what, DEEPEST) != outside.count(":"):
        raise TinyGPTError(f"{what} states a key twice")
    return json_object(value, what)


def check_words(outside: str, what: str) -> None:
    """Numbers so long that reading them takes for ever, and those that only CPython knows."""
    for mark in ",:[]{}":
        outside = outside.replace(mark, " ")
    for word in outside.split():
        if len(word) > LONGEST_NUMBER:
            raise TinyGPTError(f"{what} is broken JSON (a number of {len(word)} characters)")
        if word in ("NaN", "Infinity", "-Infinity"):
            raise TinyGPTError(f"{what} is broken JSON ({word} is not JSON)")


def count_keys(value: "Any", what: str, levels: int) -> int:
    """How many there are in all objects within `value`; fewer than the text states where one is there twice."""
    if not isinstance(value, (dict, list)):
        return 0
    if levels == 0:
        raise TinyGPTError(f"{what} is nested too deeply")
    if isinstance(value, list):
        return sum([count_keys(item, what, levels - 1) for item in value])
    return len(value) + sum([count_keys(item, what, levels - 1) for item in value.values()])


def json_object(value: "Any", what: str) -> "Json":
    if not isinstance(value, dict):
        raise TinyGPTError(f"{what} must be a JSON object, not {quoted(value)}")
    return value


def whole(value: "Any", what: str, low: int = 0, high: int = LARGEST_WHOLE) -> int:
    # bool is an int in CPython and is not in MicroPython: refuse it in both.
    if value is True or value is False or not isinstance(value, int):
        raise TinyGPTError(f"{what} must be a whole number, not {quoted(value)}")
    if not low <= value <= high:
        raise TinyGPTError(f"{what} must be from {low} to {high}, not {value}")
    return value


def text_of(value: "Any", what: str) -> str:
    if not isinstance(value, str):
        raise TinyGPTError(f"{what} must be text, not {quoted(value)}")
    return value


def quoted(value: "Any") -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."
