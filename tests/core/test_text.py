import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygpt.core.text import StreamDecoder, decode, encode, encoding_advice


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_text_in_another_encoding_is_told_of(encoding):
    advice = encoding_advice("The quick brown fox. Ünïcödé.\n".encode(encoding))
    assert "Convert it to UTF-8 first" in advice
    assert (f"is {encoding.upper()}" in advice) == (encoding in ("utf-16", "utf-32"))


def test_a_file_that_is_no_text_is_told_of():
    assert "ISO-8859-1" in encoding_advice("Les élèves sont arrivés à l'école. ".encode("latin-1") * 9)
    for start, what in ((b"%PDF-1.7", "pdftotext"), (b"PK\x03\x04..", "plain text"), (b"\x89PNG\r\n", "an image")):
        assert what in encoding_advice(start + bytes(range(200)))


def test_utf8_and_a_stray_zero_byte_are_no_reason_for_advice():
    assert (
        encoding_advice(b"") == encoding_advice("né 日本 🎉".encode() * 99) == encoding_advice(b"a" * 99 + b"\0") == ""
    )
    assert encoding_advice("\ufefftext".encode()) == ""
