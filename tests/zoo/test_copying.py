"""How much of a text stands in another: the quick way against the obvious one."""

from hypothesis import example, given
from hypothesis import strategies as st

from tinygpt.zoo.copying import copied, longest_of, share_of

FEW_LETTERS = st.binary(max_size=40).map(lambda text: bytes(byte % 2 + 97 for byte in text))


@given(text=FEW_LETTERS, source=FEW_LETTERS)
@example(text=b"abba", source=b"abba")
@example(text=b"", source=b"ab")
@example(text=b"ab", source=b"")
def test_longest_and_share(text: bytes, source: bytes) -> None:
    every = [text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)]
    inside = [stretch for stretch in every if stretch in source]
    longest = longest_of(text, source)
    assert len(longest) == max(map(len, inside), default=0)
    assert longest in text and longest in source
    for length in (1, 3):
        places = [text[i : i + length] for i in range(len(text) - length + 1)]
        expected = sum(place in source for place in places) / len(places) if places else None
        assert share_of(text, source, length) == (None if expected is None else round(expected, 4))


def test_what_is_told() -> None:
    source = b"The quick brown fox jumps over the lazy dog."
    told = copied(b"A quick brown fox jumps", source)
    shares = {"share_12": round(11 / 12, 4), "share_24": None}
    assert told == {"bytes": 23, **shares, "longest": 22, "stretch": " quick brown fox jumps"}
    assert copied(bytes(20_000), source)["bytes"] == 10_000
