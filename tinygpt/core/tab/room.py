"""Whether a browser has room for a run. It is asked before: a tab that runs short dies with all that is in it."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.wording import size_text

GIB = 2**30
MOST_REPORTED = 8 * GIB  # browsers say no more than that, or than a few times that, of a machine that has more
UNREPORTED = 4 * GIB  # where they do not say, a machine is taken to have so much
FITS = 0.5  # of the memory: what a tab may take without a question


def doubt(needed: int, reported: int | None) -> str:
    """Nothing where `needed` bytes fit, a sentence where they may not; those that cannot are refused."""
    memory = UNREPORTED if reported is None else reported
    if needed <= FITS * memory:
        return ""
    takes = f"this run takes {size_text(needed)} of memory"
    if reported is None:
        return f"{takes}, and this browser does not say how much there is"
    if needed > memory and memory < MOST_REPORTED:
        raise TinyGPTError(f"{takes}, but this machine has {size_text(memory)}; use a smaller preset or batch")
    return f"{takes}, and this browser says that there are {size_text(memory)} or more"
