"""How much of a text stands in another one, byte for byte."""

from __future__ import annotations

from typing import Any

from tinygpt.core.text import decode
from tinygpt.inside.origins import Source

LENGTHS = (12, 24)  # of the stretches whose share is told: a few words, and half a line
LOOKED_AT = 10_000  # bytes of a text


def copied(text: bytes, source: Source) -> dict[str, Any]:
    """Of the text's first LOOKED_AT bytes: the share of stretches that stand in the source, and the longest of them."""
    text = text[:LOOKED_AT]
    lengths, _ = source.longest_at(text)
    longest = int(lengths.max(initial=0))
    start = int(lengths.argmax()) if longest else 0
    shares: dict[str, float | None] = {}
    for length in LENGTHS:
        there = lengths[: max(0, len(text) - length + 1)] >= length
        shares[f"share_{length}"] = round(float(there.mean()), 4) if len(there) else None
    return {"bytes": len(text), **shares, "longest": longest, "stretch": decode(text[start : start + longest])}
