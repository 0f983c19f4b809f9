"""Tasks about the order of letters and signs."""

from tinygpt.core.tasks.task import Draw, Task, itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    Pair = tuple[str, str]

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
OPENING, CLOSING = "([{", ")]}"
COPIED = 4  # letters
NOISE, NOISE_LETTERS = 8, "abcd"  # between marks


def sorting(draw: Draw, letters: int) -> "Pair":
    word = draw.some(letters, ALPHABET)
    return "".join(word) + "=", "".join(sorted(word))


def reversing(draw: Draw, letters: int) -> "Pair":
    word = draw.letters(letters, ALPHABET)
    return word + "=", "".join([word[i] for i in range(letters - 1, -1, -1)])


def copying(draw: Draw, gap: int) -> "Pair":
    word = draw.letters(COPIED, ALPHABET)
    return word + "." * gap + "=", word


def repeating(draw: Draw, letters: int) -> "Pair":
    word = draw.letters(letters, ALPHABET)
    return word + "=", word + word


def brackets(draw: Draw, signs: int) -> "Pair":
    """Opened and closed as they may be, at least one left open: the answer closes those."""
    question, still_open = "", ""
    for left in range(signs, 0, -1):
        may_close = len(still_open) > 1 or (still_open and left > 1)
        if may_close and draw.below(2):
            question += still_open[-1]
            still_open = still_open[:-1]
        else:
            kind = draw.below(len(OPENING))
            question += OPENING[kind]
            still_open += CLOSING[kind]
    return question + "=", "".join([still_open[i] for i in range(len(still_open) - 1, -1, -1)])


def temporal_order(draw: Draw, marks: int) -> "Pair":
    """Capitals among small letters."""
    marked = draw.letters(marks, "XYZ")
    left, noise = list(marked), NOISE
    question = ""
    while left or noise:
        if draw.below(len(left) + noise) < len(left):
            question += left.pop(0)
        else:
            question += draw.letters(1, NOISE_LETTERS)
            noise -= 1
    return question + "=", marked


SORTING = Task("sorting", "letters, in the alphabet's order", "letters", 3, 20, 6, 90, sorting, itself)
REVERSING = Task("reversing", "a word, from its end", "letters", 3, 30, 4, 90, reversing, itself)
COPYING = Task("copying", "four letters, again after a gap", "gap", 0, 200, 12, 90, copying, itself)
REPEATING = Task("repeating", "a word, twice", "letters", 2, 20, 3, 90, repeating, itself)
BRACKETS = Task("brackets", "which brackets close what is open", "signs", 4, 40, 8, 90, brackets, itself)
TEMPORAL_ORDER = Task("temporal-order", "the capitals, in their order", "marks", 2, 8, 3, 90, temporal_order, itself)
