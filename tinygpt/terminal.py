"""Text from elsewhere (a file, a server, a young model) as a terminal may have it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without the control characters that a terminal would obey; lines stay lines, and no length changes."""
    return "".join(char if char.isprintable() or char == "\n" else "·" for char in text)


def one_line(text: str) -> str:
    """Printable, and with no way to pass for a line of our own."""
    return printable(text).replace("\n", " ")
