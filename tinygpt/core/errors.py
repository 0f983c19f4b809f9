"""The one exception that carries a sentence for the user."""


class TinyGPTError(Exception):
    """Something the user can act on.

    The message is one clear sentence that says what is wrong and what to do. The CLI prints
    it and exits with a non-zero status; the page shows it. Everything else is a bug.
    """


def nearest(word: str, known: list[str]) -> str:
    """The known name with the fewest single-letter edits to `word` (of whose length only so much matters)."""
    start = word[:64].lower()
    return min(sorted(known), key=lambda name: edit_distance(start, name.lower()))


def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i in range(len(a)):
        previous, row = row, [i + 1]
        for j in range(len(b)):
            substitute = previous[j] + (a[i] != b[j])
            row.append(min(substitute, previous[j + 1] + 1, row[j] + 1))
    return row[-1]
