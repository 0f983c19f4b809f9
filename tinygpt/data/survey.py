"""What a text is like, before anything is trained on it. The page counts the same in web/src/worker/survey.ts."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

SURVEYED = 8_000_000  # bytes, from the front
STRETCH = 24  # bytes
WORDS_SHOWN = 12
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def survey(text: bytes) -> dict[str, Any]:
    """How many bytes were looked at, how many different ones there are, words, different words and the most common
    ones; and of all stretches of 24 bytes the share that stood in the text before."""
    text = text[:SURVEYED]
    counts = Counter(WORD.findall(text.decode("utf-8", "replace").lower()))
    return {
        "surveyed": len(text),
        "different": len(set(text)),
        "words": counts.total(),
        "vocabulary": len(counts),
        "common": [list(pair) for pair in counts.most_common(WORDS_SHOWN)],
        "repeats": repeats(text),
    }


def repeats(text: bytes) -> float:
    if len(text) < STRETCH:
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, np.uint8), STRETCH)
    stretches = np.ascontiguousarray(windows).view(f"V{STRETCH}").reshape(-1)
    return 1 - len(np.unique(stretches)) / len(stretches)
