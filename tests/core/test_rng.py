import itertools

import pytest

from tinygpt.core.rng import (
    SHUFFLED_WINDOWS,
    batch_offsets,
    below,
    eval_offsets,
    philox,
    sample_uniform,
    shuffled_offsets,
    windows_per_epoch,
)

# Known answers of Philox4x32-10 from the generator's authors (Random123's kat_vectors).
KNOWN = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_philox_gives_the_known_answers(key, counter, words):
    assert philox(key, counter) == words


def test_below_reaches_both_ends():
    assert below(0, 0, 1000) == 0
    assert below(0xFFFFFFFF, 0xFFFFFFFF, 1000) == 999


def test_offsets_stay_inside_the_corpus_and_cover_it():
    seen = set()
    for step in range(1, 400):
        seen.update(batch_offsets(1, step, 8, corpus_bytes=40, ctx=30))
    assert seen == set(range(10))  # the last window is corpus[9:40]: ctx + 1 bytes


def test_a_row_does_not_depend_on_the_number_of_rows():
    assert batch_offsets(5, 3, 7, 10**6, 64) == batch_offsets(5, 3, 16, 10**6, 64)[:7]


def test_steps_seeds_and_purposes_differ():
    draws = [
        tuple(batch_offsets(1, 1, 4, 10**6, 64)),
        tuple(batch_offsets(1, 2, 4, 10**6, 64)),
        tuple(batch_offsets(2, 1, 4, 10**6, 64)),
        tuple(eval_offsets(1, 4, 10**6, 64)),
    ]
    assert len(set(draws)) == 4


def test_sample_uniform_is_uniform():
    draws = [sample_uniform(3, position) for position in range(4000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert abs(sum(draws) / len(draws) - 0.5) < 4 / (12 * len(draws)) ** 0.5


@pytest.mark.parametrize(("corpus", "ctx"), [(2, 1), (6, 5), (12, 4), (1001, 17), (5000, 3), (33 * 64, 64)])
def test_an_epoch_reads_every_window_once(corpus: int, ctx: int) -> None:
    count = windows_per_epoch(corpus, ctx)
    orders = []
    for epoch in range(3):
        starts = shuffled_offsets(7, epoch * count, count, corpus, ctx)
        assert min(starts) >= 0 and max(starts) + ctx + 1 <= corpus
        assert [b - a for a, b in itertools.pairwise(sorted(starts))] == [ctx] * (count - 1)
        orders.append([start // ctx for start in starts])
    if count > 20:
        assert orders[0] != orders[1] != orders[2] and orders[0] != sorted(orders[0])


def test_a_shuffled_step_follows_the_one_before_whatever_its_epoch() -> None:
    rows, corpus, ctx = 6, 1000, 10
    whole = shuffled_offsets(3, 0, 40 * rows, corpus, ctx)
    for step in range(1, 41):
        batch = batch_offsets(3, step, rows, corpus, ctx, SHUFFLED_WINDOWS)
        assert batch == whole[(step - 1) * rows : step * rows]


def test_neighbours_of_an_order_are_not_neighbours_of_the_text() -> None:
    """In a random order of n windows, one pair in n is in the text's order on average."""
    count = windows_per_epoch(1_000_000, 64)
    starts = shuffled_offsets(1, 0, count, 1_000_000, 64)
    assert sum(b - a == 64 for a, b in itertools.pairwise(starts)) < 10
    halves = [sum(start < 500_000 for start in starts[i : i + 500]) for i in range(0, count - 500, 500)]
    assert all(200 < half < 300 for half in halves)  # five standard deviations of a fair draw are 56
