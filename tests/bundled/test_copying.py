"""How much of a text stands in another, as a card tells it: against the obvious way."""

from hypothesis import example, given
from hypothesis import strategies as st

from lab.bundled.copying import copied
from tinygpt.inside.origins import Source

FEW_LETTERS = st.binary(max_size=60).map(lambda text: bytes(byte % 2 + 97 for byte in text))


@given(text=FEW_LETTERS, source=FEW_LETTERS)
@example(text=b"", source=b"ab")
@example(text=b"ab", source=b"")
def test_longest_and_share(text: bytes, source: bytes) -> None:
    every = [text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)]
    inside = [stretch for stretch in every if stretch in source]
    told = copied(text, Source(source))
    assert told["longest"] == max(map(len, inside), default=0) == len(told["stretch"])
    assert told["stretch"].encode() in text and told["stretch"].encode() in source
    for length in (12, 24):
        places = [text[i : i + length] for i in range(len(text) - length + 1)]
        expected = sum(place in source for place in places) / len(places) if places else None
        assert told[f"share_{length}"] == (None if expected is None else round(expected, 4))


def test_what_is_told() -> None:
    source = Source(b"The quick brown fox jumps over the lazy dog.")
    told = copied(b"A quick brown fox jumps", source)
    shares = {"share_12": round(11 / 12, 4), "share_24": None}
    assert told == {"bytes": 23, **shares, "longest": 22, "stretch": " quick brown fox jumps"}
    assert copied(bytes(20_000), source)["bytes"] == 10_000
