import pytest

from tinygpt.core.rng import batch_offsets, below, eval_offsets, philox, sample_uniform

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
