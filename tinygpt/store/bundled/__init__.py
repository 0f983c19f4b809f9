"""Models that come with the package: each a .tinygpt file in float16 and a card that tells what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinygpt.core.errors import TinyGPTError

FOLDER = Path(__file__).parent / "models"
EMPTY = "No models come with this copy of TinyGPT; `make models` trains them."

Card = dict[str, Any]


def named() -> dict[str, Path]:
    """The models there are, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.tinygpt"))}


def card_of(name: str) -> Card:
    path = FOLDER / f"{name}.json"
    try:
        card: Card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise TinyGPTError(f"the card of {name} cannot be read ({fault}): restore {path}") from None
    return card


def cards() -> list[Card]:
    return [card_of(name) for name in named()]
