from hypothesis import given
from hypothesis import strategies as st

from tinygpt.core.text import StreamDecoder, decode, encode


@given(st.binary(max_size=64))
def test_any_bytes_decode_as_in_cpython(data):
    assert decode(data) == data.decode("utf-8", "replace")


@given(st.lists(st.sampled_from([0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0x41])))
def test_the_edges_of_utf8_decode_as_in_cpython(data):
    assert decode(bytes(data)) == bytes(data).decode("utf-8", "replace")


def test_a_character_comes_whole_when_its_last_byte_does():
    stream = StreamDecoder()
    assert [stream.push(byte) for byte in "é日🎉".encode()] == ["", "é", "", "", "日", "", "", "", "🎉"]
    assert stream.finish() == ""


@given(st.text())
def test_text_survives_its_bytes(text):
    text = text.encode("utf-8", "replace").decode()
    assert decode(encode(text)) == text
