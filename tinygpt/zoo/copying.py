"""How much of a text stands in another one, byte for byte."""

from __future__ import annotations

from typing import Any

from tinygpt.core.text import decode

LENGTHS = (12, 24)  # of the stretches whose share is told: a few words, and half a line
LOOKED_AT = 10_000  # bytes of a text


def copied(text: bytes, source: bytes) -> dict[str, Any]:
    """Of the text's first LOOKED_AT bytes: the share of stretches that stand in the source, and the longest of them."""
    text = text[:LOOKED_AT]
    longest = longest_of(text, source)
    shares = {f"share_{length}": share_of(text, source, length) for length in LENGTHS}
    return {"bytes": len(text), **shares, "longest": len(longest), "stretch": decode(longest)}


def share_of(text: bytes, source: bytes, length: int) -> float | None:
    """Of all places in the text where so many bytes begin; None where there is no such place."""
    places = stretches(text, length)
    if not places:
        return None
    there = found(set(places), source, length)
    return round(sum(stretch in there for stretch in places) / len(places), 4)


def longest_of(text: bytes, source: bytes) -> bytes:
    """The first of the longest stretches of the text that stand in the source.

    Where there is one of some length, there are shorter ones: so the length is doubled, then halved in on.
    """

    def first(length: int) -> bytes:
        places = stretches(text, length)
        there = found(set(places), source, length)
        return next((stretch for stretch in places if stretch in there), b"")

    length, best = 1, b""
    while stretch := first(length):
        best, length = stretch, 2 * length
    high = length  # of this length there is none
    while high - len(best) > 1:
        middle = (len(best) + high) // 2
        stretch = first(middle)
        best, high = (stretch, high) if stretch else (best, middle)
    return best


def stretches(text: bytes, length: int) -> list[bytes]:
    return [text[i : i + length] for i in range(len(text) - length + 1)]


def found(wanted: set[bytes], source: bytes, length: int) -> set[bytes]:
    places = (source[i : i + length] for i in range(len(source) - length + 1)) if wanted else ()
    return {stretch for stretch in places if stretch in wanted}
