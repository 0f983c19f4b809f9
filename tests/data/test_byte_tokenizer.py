from hypothesis import given
from hypothesis import strategies as st

from tinygpt.data import StreamDecoder, decode, encode


def stream(tokens: bytes) -> str:
    decoder = StreamDecoder()
    return "".join([*(decoder.push(byte) for byte in tokens), decoder.finish()])


@given(st.text())
def test_text_survives_the_round_trip(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.binary())
def test_streamed_pieces_join_to_the_whole_decode(tokens: bytes) -> None:
    assert stream(tokens) == decode(tokens)


@given(st.text(), st.binary(max_size=3), st.text())
def test_streaming_recovers_after_damage(before: str, damage: bytes, after: str) -> None:
    tokens = encode(before) + damage + encode(after)
    assert stream(tokens) == decode(tokens)


def test_a_character_comes_out_with_its_last_byte() -> None:
    decoder = StreamDecoder()
    assert [decoder.push(byte) for byte in "é€🐋".encode()] == ["", "é", "", "", "€", "", "", "", "🐋"]
    assert decoder.finish() == ""


def test_a_stream_that_ends_inside_a_character_says_so_once_and_can_start_again() -> None:
    decoder = StreamDecoder()
    assert decoder.push(0xE2) == ""
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""
    assert decoder.push(ord("a")) == "a"
