"""What every source ends in: named bytes, and how they are split for training."""

import hashlib
from dataclasses import dataclass, field

from tinygpt.core.corpus import train_bytes
from tinygpt.core.errors import TinyGPTError


@dataclass(frozen=True)
class Corpus:
    name: str
    text: bytes = field(repr=False)
    description: str
    held_out: bytes | None = field(default=None, repr=False)  # where a source has its own text to validate on

    @property
    def sha256(self) -> str:
        return sha256(self.text + (self.held_out or b""))

    def split(self, val_fraction: float = 0.1) -> tuple[bytes, bytes]:
        """Training text from the front, validation text from the end: contiguous, so they share no sentence.

        A source that holds out by itself has decided already.
        """
        if self.held_out is not None:
            return self.text, self.held_out
        if not 0 <= val_fraction < 1:
            raise TinyGPTError(f"The validation fraction must be at least 0 and below 1, not {val_fraction}.")
        cut = train_bytes(len(self.text), val_fraction)
        return self.text[:cut], self.text[cut:]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
