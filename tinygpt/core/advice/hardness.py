"""How hard a text is to predict: the loss that a table of which byte follows which three reaches on held-out text.

Far cheaper than training a model, and texts that are hard for the one are hard for the other.
"""

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    Table = tuple[list[dict[int, int]], list[dict[int, int]]]

ORDER = 3  # bytes that the next one is predicted from
LEARNED, SCORED = 131072, 32768  # bytes that are looked at, in pieces from all over a text
PIECES = 16
DISTINCT = 512  # above the number of bytes that can follow: a context's count and that number are one integer


def hardness(train: bytes, held_out: bytes) -> float:
    """Nats per byte of `held_out`, by what follows what in `train`."""
    return hardness_of(pieces(train, LEARNED), pieces(held_out, SCORED))


def pieces(text: bytes, length: int) -> "list[bytes]":
    return [text[start : start + size] for start, size in places(len(text), length)]


def places(text_bytes: int, length: int) -> "list[list[int]]":
    """(start, size) of about so many bytes of a text, in pieces that lie evenly."""
    if text_bytes <= length:
        return [[0, text_bytes]]
    size = length // PIECES
    return [[i * (text_bytes - size) // (PIECES - 1), size] for i in range(PIECES)]


def hardness_of(learned: "list[bytes]", scored: "list[bytes]") -> float:
    """By what follows what in the one, of the other."""
    names = [0] * 256  # of the bytes that occur, from 1 on: numbers that stay small are quick in MicroPython
    occurring: set[int] = set()
    for piece in learned:
        occurring.update(piece)
    for name, byte in enumerate(sorted(occurring)):
        names[byte] = name + 1
    base = len(occurring) + 1
    table = learn([[names[byte] for byte in piece] for piece in learned], base)
    return score(table, [[names[byte] for byte in piece] for piece in scored], base)


def learn(pieces: "list[list[int]]", base: int) -> "Table":
    """For each length of context: how often a byte followed it; how often it occurred, and with how many followers."""
    followed: list[dict[int, int]] = []
    contexts: list[dict[int, int]] = []
    for order in range(ORDER + 1):
        counts: dict[int, int] = {}
        totals: dict[int, int] = {}
        wrap = base**order
        for piece in pieces:
            context = 0
            for place in range(len(piece)):
                longer = context * base + piece[place]
                if place >= order:
                    if longer in counts:
                        counts[longer] += 1
                        totals[context] += DISTINCT
                    else:
                        counts[longer] = 1
                        totals[context] = totals.get(context, 0) + DISTINCT + 1
                context = longer % wrap
        followed.append(counts)
        contexts.append(totals)
    return followed, contexts


def score(table: "Table", pieces: "list[list[int]]", base: int) -> float:
    """Witten and Bell's estimate: what was seen, and the shorter context's in proportion to how varied it was."""
    followed, contexts = table
    powers = [base**order for order in range(ORDER + 1)]
    total, count = 0.0, 0
    for piece in pieces:
        for place in range(ORDER, len(piece)):
            byte, chance, context = piece[place], 1.0 / 256, 0
            for order in range(ORDER + 1):
                if order:
                    context += piece[place - order] * powers[order - 1]
                seen = contexts[order].get(context, 0)
                if not seen:
                    break
                varied = seen % DISTINCT
                chance = (followed[order].get(context * base + byte, 0) + varied * chance) / (seen // DISTINCT + varied)
            total -= math.log(chance)
            count += 1
    return total / count if count else math.log(256)
