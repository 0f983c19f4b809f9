"""Names of tensors and of a model's parts, and patterns of them: a * stands for any letters, dots too."""

from tinygpt.core.errors import TinyGPTError, instead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def matches(pattern: str, name: str) -> bool:
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return pattern == name
    first, last = pieces[0], pieces[-1]
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in pieces[1:-1]:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def matches_any(patterns: "Sequence[str]", name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def chosen(patterns: "Sequence[str]", names: "Sequence[str]", what: str) -> "list[str]":
    """The names that any of the patterns stands for, in their own order; an error where one stands for none."""
    for pattern in patterns:
        if not [name for name in names if matches(pattern, name)]:
            raise TinyGPTError(f"there is no {what} '{pattern}'{instead(pattern, list(names))}")
    return [name for name in names if matches_any(patterns, name)]
