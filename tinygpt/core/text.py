"""Text to tokens and back. A token is a byte of UTF-8, so any text encodes; not all that a model emits decodes."""

REPLACEMENT = "\ufffd"
PROBED_BYTES = 8192  # of a text's start
MARKS = (  # which other encodings begin with; UTF-16's is the beginning of UTF-32's
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
LATIN = "ISO-8859-1"  # which has no mark
# What files that are no text begin with, what they are, and what to do.
FOREIGN = (
    (b"%PDF-", "a PDF", "extract its text first, as by: pdftotext OLD.pdf NEW.txt"),
    (b"PK\x03\x04", "a ZIP archive, as .docx, .odt and .epub files are", "save it as plain text first"),
    (b"\xd0\xcf\x11\xe0", "an old Office document", "save it as plain text first"),
    (b"{\\rtf", "a rich-text document", "save it as plain text first"),
    (b"\x89PNG", "an image", "give a text"),
    (b"\xff\xd8\xff", "an image", "give a text"),
    (b"GIF8", "an image", "give a text"),
    (b"\x1f\x8b", "packed by gzip", "name it .gz, or unpack it"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it"),
)


def encode(text: str) -> bytes:
    return text.encode("utf-8")


class StreamDecoder:
    """Decodes bytes as they come. What is not UTF-8 becomes U+FFFD, just as in CPython's "replace".

    (MicroPython has no error handlers, so the tab needs this spelled out.)
    """

    def __init__(self) -> None:
        self.code = 0
        self.missing = 0  # continuation bytes still to come
        self.low, self.high = 0x80, 0xBF  # what the next one may be

    def push(self, byte: int) -> str:
        """The text that this byte completes: nothing, a character, or replacements."""
        if self.missing:
            if self.low <= byte <= self.high:
                self.code = (self.code << 6) | (byte & 0x3F)
                self.missing -= 1
                self.low, self.high = 0x80, 0xBF
                return "" if self.missing else chr(self.code)
            return self.finish() + self.push(byte)
        if byte < 0x80:
            return chr(byte)
        if 0xC2 <= byte <= 0xDF:
            self.expect(byte & 0x1F, 1)
        elif 0xE0 <= byte <= 0xEF:
            # The second byte's range shuts out overlong forms (E0) and surrogates (ED) ...
            self.expect(byte & 0x0F, 2, 0xA0 if byte == 0xE0 else 0x80, 0x9F if byte == 0xED else 0xBF)
        elif 0xF0 <= byte <= 0xF4:
            # ... and overlong forms (F0) and code points beyond U+10FFFF (F4).
            self.expect(byte & 0x07, 3, 0x90 if byte == 0xF0 else 0x80, 0x8F if byte == 0xF4 else 0xBF)
        else:
            return REPLACEMENT
        return ""

    def push_all(self, data: bytes) -> str:
        return "".join([self.push(byte) for byte in data])

    def expect(self, code: int, missing: int, low: int = 0x80, high: int = 0xBF) -> None:
        self.code, self.missing, self.low, self.high = code, missing, low, high

    def finish(self) -> str:
        """What is left of a character that was cut off."""
        cut = self.missing > 0
        self.expect(0, 0)
        return REPLACEMENT if cut else ""


def encoding_advice(text: bytes) -> str:
    """What to tell the user of a text whose bytes are not UTF-8's letters; nothing of any other."""
    start = text[:PROBED_BYTES]
    for magic, what, remedy in FOREIGN:
        if start.startswith(magic):
            return f"This file is {what}, and its bytes would be learned as they are: {remedy}."
    encoding = ""
    for mark, name in MARKS:
        if not encoding and start.startswith(mark):
            encoding = name
    if not encoding and is_latin(start):
        encoding = LATIN
    if not encoding and 8 * start.count(b"\0") <= len(start):
        return ""
    seems = "is" if encoding != LATIN else "seems to be"
    what = f"{seems} {encoding}" if encoding else "is full of zero bytes, as UTF-16 and binary files are"
    return (
        f"The text {what}, and its bytes would be learned as they are. Convert it to UTF-8 first, "
        f"as by: iconv -f {encoding or 'UTF-16'} -t UTF-8 OLD > NEW"
    )


def is_latin(start: bytes) -> bool:
    """Whether most of what is not ASCII is no UTF-8 either."""
    high = sum([1 for byte in start if byte >= 0x80])
    if high == 0 or b"\0" in start:
        return False
    decoder = StreamDecoder()
    return 2 * "".join([decoder.push(byte) for byte in start]).count(REPLACEMENT) > high


def whole_characters(text: str) -> str:
    """With pairs of surrogates joined and single ones replaced: JSON may spell them, UTF-8 cannot.

    (MicroPython's json leaves the pairs as they are.)
    """
    result: list[str] = []
    high = 0
    for char in text:
        code = ord(char)
        if 0xDC00 <= code <= 0xDFFF and high:
            result[-1] = chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00))
            high = 0
            continue
        surrogate = 0xD800 <= code <= 0xDFFF
        high = code if surrogate and code < 0xDC00 else 0
        result.append(REPLACEMENT if surrogate else char)
    return "".join(result)


def decode(data: bytes) -> str:
    stream = StreamDecoder()
    return stream.push_all(data) + stream.finish()
