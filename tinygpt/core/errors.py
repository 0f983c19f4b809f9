"""The one exception that carries a sentence for the user."""


class TinyGPTError(Exception):
    """Something the user can act on.

    The message is one clear sentence that says what is wrong and what to do. The CLI prints
    it and exits with a non-zero status; the page shows it. Everything else is a bug.
    """


SHORTEST_START = 3  # letters; fewer begin too many names
LONGEST_LIST = 60  # names; more would hide the sentence


def instead(word: str, known: list[str]) -> str:
    """How a sentence on an unknown name ends: with the known name that was likely meant, else with all of them."""
    likely = nearest(word, known)
    if likely:
        return f"; did you mean '{likely}'?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= LONGEST_LIST else ""


def nearest(word: str, known: list[str]) -> str:
    """The known name that `word` is likely a slip of: unfinished, too long, or few letters off; else nothing."""
    start = word[:64].lower()  # of a longer word no more matters
    best, fewest = "", (len(start) + 1) // 3 + 1
    for name in sorted(known):
        lower = name.lower()
        edits = edit_distance(start, lower)
        if min(len(start), len(lower)) >= SHORTEST_START and (start.startswith(lower) or lower.startswith(start)):
            edits = min(edits, 1)
        if edits < fewest:
            best, fewest = name, edits
    return best


def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i in range(len(a)):
        previous, row = row, [i + 1]
        for j in range(len(b)):
            substitute = previous[j] + (a[i] != b[j])
            row.append(min(substitute, previous[j + 1] + 1, row[j] + 1))
    return row[-1]


class NotFinite(TinyGPTError):
    """The model's own numbers have overflowed: there is nothing to choose from."""


NOT_FINITE = "the model's logits are not finite, so it can write nothing: its weights are too large"
