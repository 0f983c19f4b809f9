"""Which rows to ask for, and what text is in them."""

import json

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.hub.answers import LINES, TEXT, Page, Row, Split
from tinygpt.core.hub.names import Rows
from tinygpt.core.text import whole_characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_BUDGET = 2_000_000  # bytes
SEPARATOR = b"\n\n"
MOST_PAGES = 100_000
MOST_BLANK_PAGES = 20  # in a row
COLUMNS_SHOWN = 20
NAMES_COMPARED = 1000


def locate(wanted: Rows, known: "list[Split]") -> Rows:
    """The config and split to read: those asked for, else `default` and `train`, else the first there are."""
    if not known:
        raise TinyGPTError(f"The dataset {wanted.dataset} has no splits to read: try another dataset.")
    configs = configs_of(known)
    config = wanted.config or ("default" if "default" in configs else configs[0])
    splits = splits_of(known, config)
    if not splits:
        others = instead(config, sorted(configs[:NAMES_COMPARED]))
        raise TinyGPTError(f"The dataset {wanted.dataset} has no config '{config}'{others}")
    split = wanted.split or ("train" if "train" in splits else splits[0])
    return wanted.of(config, split, wanted.column)


def configs_of(known: "list[Split]") -> "list[str]":
    found: list[str] = []
    seen: set[str] = set()
    for split in known:
        if split.config not in seen:
            found.append(split.config)
        seen.add(split.config)
    return found


def splits_of(known: "list[Split]", config: str) -> "list[str]":
    return [split.name for split in known if split.config == config]


class Reading:
    """Rows, page by page, until there is as much text as wanted: `ask`, `take` what came, unless `done`."""

    def __init__(self, rows: Rows, budget: int = DEFAULT_BUDGET) -> None:
        if budget <= 0:
            raise TinyGPTError(f"The byte budget must be positive, not {budget}.")
        self.wanted = rows
        self.budget = budget
        self.size = 0  # of the text, before the budget cuts it
        self.kept = 0  # of it
        self.rows = 0
        self.pages = 0
        self.blank_pages = 0
        self.truncated_rows = 0
        self.partial = False
        self.done = False

    def ask(self) -> "tuple[str, list[tuple[str, str | int]]]":
        """Path and parameters of the next page."""
        return "/rows", rows_asked(self.wanted, self.rows, self.wanted.rows_per_page)

    def take(self, page: Page) -> bytes:
        """The text that it adds: whole characters, and with what came before at most `budget` bytes."""
        if self.wanted.column is None:
            self.wanted = self.wanted.of(self.wanted.config, self.wanted.split, choose_column(self.wanted, page))
        before = self.size
        self.partial = page.partial
        added = []
        for row in page.rows:
            added.append(self.take_row(page, row))
            if self.size >= self.budget:
                break
        text = b"".join(added)
        self.kept += len(text)
        self.pages += 1
        self.blank_pages = self.blank_pages + 1 if self.size == before else 0
        total = page.total
        self.done = self.size >= self.budget or not page.rows or (total is not None and self.rows >= total)
        if self.done:
            self.check_size()
        elif self.pages == MOST_PAGES or self.blank_pages == MOST_BLANK_PAGES:
            raise TinyGPTError(
                f"The first {self.rows:,} rows of {self.wanted.dataset} hold too little text: "
                "choose another column or split."
            )
        return text

    def take_row(self, page: Page, row: Row) -> bytes:
        column = str(self.wanted.column)
        if column not in row.cells:
            raise TinyGPTError(
                f"The dataset {self.wanted.dataset} has no column '{column}': choose one of {some_columns(page)}."
            )
        truncated = column in row.truncated
        text = cell_text(self.wanted, page, row).replace("\r\n", "\n").strip("\n")
        self.rows += 1
        content = encoded(text)
        if not content.strip():
            return b""
        self.truncated_rows += truncated
        piece = (SEPARATOR if self.size else b"") + content
        room = self.budget - self.size
        self.size += len(piece)
        return whole(piece, room)

    def check_size(self) -> None:
        if self.kept == 0:
            raise TinyGPTError(f"There is no text in {self.wanted.describe()}: choose another column or split.")

    def describe(self) -> str:
        cut_short = f", {self.truncated_rows} of them cut short by the server" if self.truncated_rows else ""
        partial = ", of which the server has only the beginning" if self.partial else ""
        return f"{self.rows:,} rows{cut_short}, {self.wanted.describe()}{partial}"


def rows_asked(rows: Rows, offset: int, length: int) -> "list[tuple[str, str | int]]":
    return [("config", str(rows.config)), ("split", str(rows.split)), ("offset", offset), ("length", length)]


def text_columns(page: Page) -> "list[str]":
    return [name for name, kind in page.columns if kind in (TEXT, LINES)]


def likely_column(page: Page) -> "str | None":
    """`text` where there is one, else the only column of strings, else the only one of lists of strings."""
    for kind in (TEXT, LINES):
        named = [name for name, is_kind in page.columns if is_kind == kind]
        if "text" in named:
            return "text"
        if named:
            return named[0] if len(named) == 1 else None
    return None


def choose_column(rows: Rows, page: Page) -> str:
    column = likely_column(page)
    if column is None:
        raise TinyGPTError(
            f"Which column of {rows.dataset} holds the text is not clear: add #column to the name, "
            f"one of {some_columns(page)}."
        )
    return column


def some_columns(page: Page) -> str:
    return ", ".join([name for name, _ in page.columns[:COLUMNS_SHOWN]]) or "those on its page"


def cell_text(rows: Rows, page: Page, row: Row) -> str:
    column = str(rows.column)
    value = row.cells[column]
    if value is None:
        return ""
    if isinstance(value, str):
        cut_list = column in row.truncated and (column, LINES) in page.columns
        return "\n".join(whole_strings(value)) if cut_list else value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    raise TinyGPTError(f"The column '{column}' of {rows.dataset} does not hold text: choose another column.")


def whole_strings(cut: str) -> "list[str]":
    """Those of a list of strings that the server cut short: it then sends the beginning of its JSON."""
    found: list[Any] = []
    inside: list[str] | None = None
    escaped = False
    for letter in cut:
        if inside is None:
            inside = ['"'] if letter == '"' else None
            continue
        inside.append(f"\\u{ord(letter):04x}" if ord(letter) < 32 else letter)
        if letter == '"' and not escaped:
            try:
                found.append(json.loads("".join(inside)))
            except ValueError:
                return []
            inside = None
        escaped = letter == "\\" and not escaped
    return found


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeError:  # a single surrogate
        return whole_characters(text).encode()


def whole(text: bytes, most: int) -> bytes:
    """The beginning of UTF-8, never ending inside a character."""
    if len(text) <= most:
        return text
    end = most
    while end > 0 and 0x80 <= text[end] < 0xC0:
        end -= 1
    return text[:end]
