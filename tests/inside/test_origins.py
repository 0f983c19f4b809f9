"""Stretches of a text that stand in another one: the suffix array against brute force."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tinygpt.inside.origins import LONG, Source, Stretch, as_data, origins_of, suffix_array

FEW_LETTERS = st.binary(max_size=60).map(lambda text: bytes(byte % 3 for byte in text))  # zeros too, as at the end


@given(text=FEW_LETTERS, source=FEW_LETTERS)
@example(text=b"a" * 40, source=b"a" * 23)
@example(text=b"", source=b"ab")
@example(text=b"ab", source=b"")
def test_the_longest_at_each_place(text: bytes, source: bytes) -> None:
    assert suffix_array(source).tolist() == sorted(range(len(source)), key=lambda i: source[i:])
    lengths, places = Source(source).longest_at(text)
    for i, (length, place) in enumerate(zip(lengths, places, strict=True)):
        assert length == max(n for n in range(len(text) - i + 1) if text[i : i + n] in source)
        assert source[place : place + length] == text[i : i + length]
    found = origins_of(text, Source(source))
    every = {(i, j) for i in range(len(text)) for j in range(i + 1, len(text) + 1) if text[i:j] in source}
    whole = {(i, j) for i, j in every if (i - 1, j) not in every and (i, j + 1) not in every}
    assert {(one.start, one.start + one.length) for one in found.stretches} == whole
    assert found.covered == [max((j - i for i, j in every if i <= k < j), default=0) for k in range(len(text))]


def test_memory_is_told_from_chance() -> None:
    random = np.random.default_rng(1)
    source = bytes(random.integers(97, 101, 3000, np.uint8))
    others = bytes(random.integers(97, 101, 2000, np.uint8))
    text = others[:50] + source[700:760] + others[50:100]
    found = origins_of(text, Source(source), held_out=others[1000:])
    assert 5 <= found.by_chance <= 14  # of four letters, about log 3000 / log 4 stand there, and a few more
    (long,) = [one for one in found.stretches if one.length > 30]
    assert long.start <= 50 and long.start + long.length >= 110 and long.place == 700 - (50 - long.start)
    assert long in found.remembered() and 60 / 160 <= found.share() <= 75 / 160
    assert origins_of(text, Source(source)).by_chance == LONG
    told = as_data(found, Source(source), "letters", most=1)
    assert told["stretches"][0]["text"].encode() == text[long.start : long.start + long.length]
    assert told["stretches"][0]["before"].encode() == source[long.place - 40 : long.place]
    assert Stretch(**{key: told["stretches"][0][key] for key in ("start", "length", "place")}) == long
