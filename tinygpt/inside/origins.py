"""Where did it learn that: the stretches of a text that stand in another one, byte for byte.

Of every place in the text the longest stretch that begins there and stands in the source is found by bisection in the
source's suffix array. That array is sorted by prefixes of 7 bytes, then of 14, 28, …: each round sorts those suffixes
alone that are not told apart yet, by what the round before knows of their second halves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.text import decode

FIRST = 7  # bytes that the first round looks at: with their number a word of 64 bits
LONG = 24  # bytes, about half a line: where nothing is held out, stretches from here on count as remembered
HELD_OUT = 20_000  # bytes of a text that was not learned, to tell how long stretches are by chance
BY_CHANCE = 0.99  # of its bytes stand in shorter ones
AROUND = 40  # bytes of the source that are shown before and behind a stretch

Ints = npt.NDArray[np.int64]


class Stretch(NamedTuple):
    """text[start : start + length] is source[place : place + length], and neither end can be moved outwards."""

    start: int
    length: int
    place: int


class Source:
    """A text in which others can be found."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.order = suffix_array(text)

    def longest_at(self, text: bytes) -> tuple[Ints, Ints]:
        """Of every place in `text`: how long the longest stretch is that begins there, and where it stands."""
        lengths, places = np.zeros(len(text), np.int64), np.zeros(len(text), np.int64)
        if not self.text:
            return lengths, places
        for start in range(len(text)):
            known = max(0, int(lengths[start - 1]) - 1) if start else 0
            lengths[start], places[start] = self.longest(text, start, known)
        return lengths, places

    def longest(self, text: bytes, start: int, known: int) -> tuple[int, int]:
        """Beside the place where the rest of `text` would be sorted in stands what has most in common with it.

        So many bytes are `known` to stand in the source.
        """
        reach = 2 * known + 32
        while True:
            wanted = text[start : start + reach]
            low, high = 0, len(self.order)
            while low < high:
                middle = (low + high) // 2
                place = self.order[middle]
                if self.text[place : place + len(wanted)] < wanted:
                    low = middle + 1
                else:
                    high = middle
            beside = [int(self.order[i]) for i in (low - 1, low) if 0 <= i < len(self.order)]
            best = max(((common(wanted, self.text, place), place) for place in beside), key=lambda found: found[0])
            if best[0] < len(wanted) or start + reach >= len(text):
                return best
            reach *= 2


def common(wanted: bytes, text: bytes, place: int) -> int:
    """How many bytes of `wanted` stand at a place of the text."""
    there = np.frombuffer(text, np.uint8)[place : place + len(wanted)]
    differs = np.flatnonzero(np.frombuffer(wanted, np.uint8)[: len(there)] != there)
    return int(differs[0]) if len(differs) else len(there)


def suffix_array(text: bytes) -> Ints:
    """Where the suffixes of a text begin, in their order."""
    size = len(text)
    words = first_words(text)
    order = np.argsort(words).astype(np.int64)
    begins = boundaries(words[order])
    rank = np.empty(size, np.int64)  # of a suffix: the place in the order where those begin that are like it so far
    rank[order] = np.maximum.accumulate(np.where(begins, np.arange(size), 0))
    length, places = FIRST, alike(begins)
    while len(places):
        members = order[places]
        behind = members + length
        second = np.where(behind < size, rank[np.minimum(behind, size - 1)] + 1, 0)
        keys = rank[members] * (size + 1) + second
        by = np.argsort(keys)
        order[places] = members[by]
        begins = boundaries(keys[by])
        rank[order[places]] = np.maximum.accumulate(np.where(begins, places, 0))
        length, places = 2 * length, places[alike(begins)]
    return order


def first_words(text: bytes) -> npt.NDArray[np.uint64]:
    """Of each suffix its first FIRST bytes, then how many it has of them: of two that zeros tell apart, the end of the
    text comes first."""
    size = len(text)
    padded = np.frombuffer(text + bytes(FIRST), np.uint8)
    words = np.zeros(size, np.uint64)
    for i in range(FIRST):
        words = (words << np.uint64(8)) | padded[i : size + i]
    left = np.minimum(np.arange(size, 0, -1), FIRST)
    return (words << np.uint64(8)) | left.astype(np.uint64)


def boundaries(keys: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where in sorted keys another one begins."""
    begins = np.ones(len(keys), bool)
    begins[1:] = keys[1:] != keys[:-1]
    return begins


def alike(begins: npt.NDArray[np.bool_]) -> Ints:
    """The places of those that have an equal beside them."""
    alone = begins & np.append(begins[1:], True)
    return np.flatnonzero(~alone)


class Origins(NamedTuple):
    """A text beside the one that was learned from."""

    stretches: list[Stretch]
    covered: list[int]  # of each byte: how long the longest stretch is that it stands in
    by_chance: int  # what stands in longer ones is remembered

    def remembered(self) -> list[Stretch]:
        return [stretch for stretch in self.stretches if stretch.length > self.by_chance]

    def share(self) -> float:
        """Of the bytes, those that stand in a stretch which is longer than chance makes them."""
        return sum(length > self.by_chance for length in self.covered) / max(1, len(self.covered))


def origins_of(text: bytes, source: Source, held_out: bytes = b"") -> Origins:
    """What of a text stands in its source. `held_out`, a text of the same kind that was not learned from, tells what
    stands there by chance."""
    limit = LONG
    if len(held_out) >= LONG:
        limit = int(np.quantile(covered_by(source.longest_at(held_out[:HELD_OUT])[0]), BY_CHANCE))
    lengths, places = source.longest_at(text)
    ends_later = [bool(lengths[i]) and (i == 0 or lengths[i] >= lengths[i - 1]) for i in range(len(text))]
    stretches = [Stretch(i, int(lengths[i]), int(places[i])) for i in range(len(text)) if ends_later[i]]
    return Origins(stretches, [int(length) for length in covered_by(lengths)], limit)


def covered_by(lengths: Ints) -> Ints:
    """Of each byte the longest stretch that it stands in, from those that begin at each."""
    covered = np.zeros(len(lengths), np.int64)
    for start in np.argsort(lengths, kind="stable"):
        covered[start : start + lengths[start]] = lengths[start]
    return covered


def as_data(origins: Origins, source: Source, name: str, most: int = 20) -> dict[str, Any]:
    """For a page and a file: the longest stretches with what stands around them in the source."""
    longest = sorted(origins.stretches, key=lambda stretch: (-stretch.length, stretch.start))[:most]
    return {
        "source": name,
        "bytes": len(source.text),
        "by_chance": origins.by_chance,
        "remembered": round(origins.share(), 4),
        "covered": origins.covered,
        "stretches": [
            {
                "start": one.start,
                "length": one.length,
                "place": one.place,
                "before": decode(source.text[max(0, one.place - AROUND) : one.place]),
                "text": decode(source.text[one.place : one.place + one.length]),
                "behind": decode(source.text[one.place + one.length : one.place + one.length + AROUND]),
            }
            for one in longest
        ],
    }
