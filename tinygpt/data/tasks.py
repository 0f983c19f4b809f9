"""Tasks as corpora: training text from the questions to train on, validation text from those held out."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import exercises
from tinygpt.data.corpus import Corpus

TEXT_BYTES = 500_000
HELD_OUT_PART = 25  # the validation text is so many times shorter


def load_task(name: str, size: int = TEXT_BYTES) -> Corpus:
    """A text of about `size` bytes; the same name and size give the same text."""
    if size <= 0:
        raise TinyGPTError(f"The byte budget must be positive, not {size}.")
    made = exercises(name)
    return Corpus(
        made.name,
        made.text(False, size),
        f"made up from {made.describe()}",
        held_out=made.text(True, size // HELD_OUT_PART),
    )
