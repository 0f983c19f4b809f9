"""What came of comparing an output with what it should be, as the page shows it: right or wrong, where, by how much."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WIDEST = 64  # places of a vector that are shown in a row


def told(
    what: str, name: str, sizes: "dict[str, Any]", got: "Any", wanted: "Any", bound: "Any", folded: bool = False
) -> "dict[str, Any]":
    """`bound` is a number, or one for each entry. Vectors that are `folded` are shown in rows."""
    shape = list(wanted.shape)
    gots, wanteds = got.reshape(-1).tolist(), wanted.reshape(-1).tolist()
    bounds = bound.reshape(-1).tolist() if hasattr(bound, "reshape") else [bound] * len(wanteds)
    off, worst, place, tightest = [], 0.0, 0, None
    for i in range(len(wanteds)):
        error = abs(gots[i] - wanteds[i])
        is_right = error <= bounds[i]  # NaN is not
        off.append(0.0 if is_right else error)
        if not is_right:
            if tightest is None or bounds[i] < tightest:
                tightest = bounds[i]
            if worst == worst and not error <= worst:  # NaN is the worst
                worst, place = error, i
    columns = shape[-1] if len(shape) > 1 or not folded else min(WIDEST, shape[-1])
    rows = [[brief(error) for error in off[at : at + columns]] for at in range(0, len(off), columns)]
    return {
        "what": what,
        "output": name,
        "sizes": sizes,
        "shape": shape,
        "right": tightest is None,
        "bound": max(bounds) if tightest is None else tightest,
        "heat": rows,
        "worst": brief(worst),
        "row": place // columns,
        "column": place % columns,
        "got": brief(gots[place]),
        "wanted": brief(wanteds[place]),
    }


def brief(value: float) -> "float | None":
    """None where it is no number, which JSON has no word for."""
    return value if value == value and value not in (float("inf"), float("-inf")) else None
