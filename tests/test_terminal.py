"""What others wrote, as a terminal may have it."""

from tinygpt.terminal import one_line, printable


def test_a_terminal_gets_nothing_to_obey() -> None:
    assert printable("a\x1b[2J\tb\n\x9bm\u202e\ud800") == "a·[2J·b\n·m··"
    assert printable("日本 — é") == "日本 — é"


def test_one_line_stays_one() -> None:
    assert one_line("saved\nerror: no\r\x85\u2028") == "saved error: no···"
