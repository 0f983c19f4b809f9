"""Text to tokens and back: a token is a byte of UTF-8, so any text encodes and nothing is out of vocabulary."""

import codecs

VOCABULARY = 256


def encode(text: str) -> bytes:
    return text.encode("utf-8")


def decode(tokens: bytes) -> str:
    """Bytes that are not UTF-8 become U+FFFD: a young model emits plenty of them."""
    return tokens.decode("utf-8", errors="replace")


class StreamDecoder:
    """Decodes one byte at a time; the pieces joined are what `decode` gives for the whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, byte: int) -> str:
        """The characters this byte completes: none, one, or more where it proves earlier bytes invalid."""
        return self._decoder.decode(bytes((byte,)))

    def finish(self) -> str:
        """What is left when the stream ends inside a character; the decoder is then ready for a new stream."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
