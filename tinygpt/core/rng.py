"""Randomness without state: Philox4x32-10, keyed by the seed and a purpose.

A draw is a pure function of (seed, purpose, counter). So the same seed gives the same weights
and batches on every engine and number of threads, and a resumed run needs nothing but its step.
"""

PHILOX_M0 = 0xD2511F53
PHILOX_M1 = 0xCD9E8D57
PHILOX_W0 = 0x9E3779B9
PHILOX_W1 = 0xBB67AE85
MASK = 0xFFFFFFFF
RANDOM_WINDOWS, SHUFFLED_WINDOWS = "random", "shuffled"
MOST_WALKS = 64

# The named streams. A number, once given, is never given to another purpose.
INIT = 1  # counter: (element // 4, 0, tensor index, 0)
BATCH = 2  # counter: (row // 2, step, 0, 0)
EVAL = 3  # counter: (row // 2, 0, 0, 0)
SAMPLE = 4  # counter: (position, 0, 0, 0)
DROPOUT = 5  # counter: (element // 4, step, place in the model, batch of the step)
LORA_INIT = 6  # counter: as INIT
TASK_DRAW = 7  # counter: (question, attempt, side, block)
TASK_SPLIT = 8  # counter: 16 bytes of a question
SHUFFLE = 9  # counter: (epoch, 0 or 1, 0, 0)


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


def batch_offsets(
    seed: int, step: int, rows: int, corpus_bytes: int, ctx: int, windows: str = RANDOM_WINDOWS
) -> list[int]:
    """Of all `rows` of a step, counted from 1, those of further batches behind those of the first."""
    if windows == RANDOM_WINDOWS:
        return window_offsets(seed, BATCH, step, rows, corpus_bytes, ctx)
    return shuffled_offsets(seed, (step - 1) * rows, rows, corpus_bytes, ctx)


def shuffled_offsets(seed: int, first: int, rows: int, corpus_bytes: int, ctx: int) -> list[int]:
    """Where windows number `first`, `first` + 1, … of a run start. An epoch has all windows of the text, side by side
    from a random place of the first one on, in a random order: so it reads every byte once, but for a few at the ends.
    """
    count = windows_per_epoch(corpus_bytes, ctx)
    offsets = []
    for number in range(first, first + rows):
        epoch, place = (number & MASK) // count, (number & MASK) % count
        words = philox((seed, SHUFFLE), (epoch, 0, 0, 0)) + philox((seed, SHUFFLE), (epoch, 1, 0, 0))
        begin = below(words[6], words[7], min(ctx, corpus_bytes - count * ctx))
        offsets.append(begin + ctx * permuted(place, count, words[:6]))
    return offsets


def windows_per_epoch(corpus_bytes: int, ctx: int) -> int:
    return max(1, corpus_bytes // ctx - 1)


def permuted(place: int, count: int, keys: "tuple[int, ...]") -> int:
    """A permutation of [0, count): a Feistel network over the next power of two, walked until it is inside."""
    bits = 0
    while count > 1 << bits:
        bits += 1
    low = bits // 2
    for _ in range(MOST_WALKS):
        left, right = place >> low, place & ((1 << low) - 1)
        for i in range(0, 6, 2):
            left ^= mixed(right ^ keys[i]) & ((1 << bits - low) - 1)
            right ^= mixed(left ^ keys[i + 1]) & ((1 << low) - 1)
        place = left << low | right
        if place < count:
            return place
    return place % count  # each walk ends with a probability of a half or more: no run comes here


def mixed(word: int) -> int:
    """A hash of 32 bits."""
    word = word * 0x9E3779B1 & MASK
    word = (word ^ word >> 15) * 0x85EBCA77 & MASK
    return word ^ word >> 13


def eval_offsets(seed: int, rows: int, corpus_bytes: int, ctx: int) -> list[int]:
    """The same windows at every validation, so that its losses compare."""
    return window_offsets(seed, EVAL, 0, rows, corpus_bytes, ctx)


def sample_uniform(seed: int, position: int) -> float:
    """The draw in [0, 1) that decides the byte at `position`: 53 random bits, exact in a double."""
    words = philox((seed, SAMPLE), (position & MASK, position >> 32, 0, 0))
    return ((words[0] << 21) | (words[1] >> 11)) / 9007199254740992.0
