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


def is_linear_weight(name: str) -> bool:
    """Whether a tensor is a linear map's matrix (an embedding is a table, not a map)."""
    parts = name.split(".")
    return parts[-1] == "weight" and (parts[-2].endswith("_proj") or parts[-2][:3] == "fc_" or parts[-2] == "lm_head")


def hidden_matrices(names: "Sequence[str]") -> "list[str]":
    """The matrices of linear maps inside transformer blocks: what Muon is for. Its kernels know where these are in a
    block; other models' matrices are AdamW's."""
    found = [name for name in names if name.startswith("blocks.") and is_linear_weight(name)]
    return found if [name for name in found if ".attn." in name] else []
