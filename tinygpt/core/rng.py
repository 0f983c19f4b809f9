"""Randomness without state: Philox4x32-10, keyed by the seed and a purpose.

A draw is a pure function of (seed, purpose, counter). So the same seed gives the same weights
and batches on every engine and number of threads, and a resumed run needs nothing but its step.
"""

PHILOX_M0 = 0xD2511F53
PHILOX_M1 = 0xCD9E8D57
PHILOX_W0 = 0x9E3779B9
PHILOX_W1 = 0xBB67AE85
MASK = 0xFFFFFFFF

# The named streams. A number, once given, is never given to another purpose.
INIT = 1  # counter: (element // 4, 0, tensor index, 0)
BATCH = 2  # counter: (row // 2, step, 0, 0)
EVAL = 3  # counter: (row // 2, 0, 0, 0)
SAMPLE = 4  # counter: (position, 0, 0, 0)
DROPOUT = 5  # counter: (element // 4, step, place in the model, batch of the step)
LORA_INIT = 6  # counter: as INIT
TASK_DRAW = 7  # counter: (question, attempt, side, block)
TASK_SPLIT = 8  # counter: 16 bytes of a question


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Four uniform 32-bit words (Salmon et al. 2011: ten rounds)."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        product0 = PHILOX_M0 * c0
        product1 = PHILOX_M1 * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ k0,
            product1 & MASK,
            (product0 >> 32) ^ c3 ^ k1,
            product0 & MASK,
        )
        k0 = (k0 + PHILOX_W0) & MASK
        k1 = (k1 + PHILOX_W1) & MASK
    return c0, c1, c2, c3


def below(high_word: int, low_word: int, limit: int) -> int:
    """A number in [0, limit) from 64 random bits."""
    return (((high_word << 32) | low_word) * limit) >> 64


def window_offsets(seed: int, purpose: int, step: int, rows: int, corpus_bytes: int, ctx: int) -> list[int]:
    """Where each row's window of ctx + 1 bytes starts. Row r of a step does not depend on `rows`."""
    starts = corpus_bytes - ctx
    offsets = []
    for pair in range((rows + 1) // 2):
        words = philox((seed, purpose), (pair, step, 0, 0))
        offsets.append(below(words[0], words[1], starts))
        offsets.append(below(words[2], words[3], starts))
    return offsets[:rows]


def batch_offsets(seed: int, step: int, rows: int, corpus_bytes: int, ctx: int) -> list[int]:
    return window_offsets(seed, BATCH, step, rows, corpus_bytes, ctx)


def eval_offsets(seed: int, rows: int, corpus_bytes: int, ctx: int) -> list[int]:
    """The same windows at every validation, so that its losses compare."""
    return window_offsets(seed, EVAL, 0, rows, corpus_bytes, ctx)


def sample_uniform(seed: int, position: int) -> float:
    """The draw in [0, 1) that decides the byte at `position`: 53 random bits, exact in a double."""
    words = philox((seed, SAMPLE), (position & MASK, position >> 32, 0, 0))
    return ((words[0] << 21) | (words[1] >> 11)) / 9007199254740992.0
