"""Text of a Hugging Face dataset, read page by page up to a byte budget.

A finished download is cached under a key of everything that was asked for. An interrupted one is discarded:
at the default budget it is a matter of seconds.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from tinygpt.cache import cache_dir, write_atomically
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.data.answers import LINES, TEXT, Page, Row, read_page, read_splits
from tinygpt.data.catalog import Rows
from tinygpt.data.corpus import Corpus, sha256
from tinygpt.data.datasets_server import DatasetsServer, server_url

DEFAULT_BUDGET = 2_000_000
SEPARATOR = b"\n\n"
MOST_PAGES = 100_000
MOST_BLANK_PAGES = 20  # in a row
COLUMNS_SHOWN = 20
NAMES_COMPARED = 1000
WHOLE_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)

Progress = Callable[[int, int, int], None]
"""Called after each page with (bytes so far, budget, rows so far)."""


@dataclass
class Download:
    budget: int
    column: str | None
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    truncated_rows: int = 0
    partial: bool = False

    @property
    def full(self) -> bool:
        return self.size >= self.budget

    def add(self, text: str, truncated: bool) -> None:
        self.rows += 1
        content = text.replace("\r\n", "\n").strip("\n").encode("utf-8", errors="replace")
        if not content.strip():
            return
        self.size += len(content) + (len(SEPARATOR) if self.parts else 0)
        self.parts.append(content)
        self.truncated_rows += truncated

    def text(self) -> bytes:
        """At most `budget` bytes, never ending inside a character."""
        return SEPARATOR.join(self.parts)[: self.budget].decode("utf-8", errors="ignore").encode("utf-8")


def load_rows(
    name: str,
    wanted: Rows,
    *,
    budget: int = DEFAULT_BUDGET,
    token: str | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    refresh: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Corpus:
    if budget <= 0:
        raise TinyGPTError(f"The byte budget must be positive, not {budget}.")
    key = cache_key(server_url(), wanted, budget)
    if not refresh and (cached := read_cache(name, key)):
        return cached
    with DatasetsServer(token=token, cancelled=cancelled, sleep=sleep) as server:
        rows = locate(server, wanted)
        download = fetch(server, rows, budget, progress)
    rows = replace(rows, column=download.column)
    text = download.text()
    if not text:
        raise TinyGPTError(f"There is no text in {describe(rows)}: choose another column or split.")
    cut_short = f", {download.truncated_rows} of them cut short by the server" if download.truncated_rows else ""
    partial = ", of which the server has only the beginning" if download.partial else ""
    description = f"{download.rows:,} rows{cut_short}, {describe(rows)}{partial}"
    write_cache(key, text, description)
    return Corpus(name, text, description)


def locate(server: DatasetsServer, wanted: Rows) -> Rows:
    """The config and split to read: those asked for, else `default` and `train`, else the first there are."""
    if wanted.config and wanted.split:
        return wanted
    known = read_splits(wanted.dataset, server.get("/splits", wanted.dataset))
    if not known:
        raise TinyGPTError(f"The dataset {wanted.dataset} has no splits to read: try another dataset.")
    configs = list(dict.fromkeys(split.config for split in known))
    config = wanted.config or ("default" if "default" in configs else configs[0])
    splits = [split.name for split in known if split.config == config]
    if not splits:
        others = instead(config, sorted(set(configs[:NAMES_COMPARED])))
        raise TinyGPTError(f"The dataset {wanted.dataset} has no config {config!r}{others}")
    split = wanted.split or ("train" if "train" in splits else splits[0])
    return replace(wanted, config=config, split=split)


def fetch(server: DatasetsServer, rows: Rows, budget: int, progress: Progress | None) -> Download:
    download = Download(budget, rows.column)
    blank_pages = 0
    for _ in range(MOST_PAGES):
        page = ask_for_page(server, rows, download.rows)
        before = download.size
        add_page(download, rows, page)
        if progress is not None and page.rows:
            progress(min(download.size, budget), budget, download.rows)
        if download.full or not page.rows or (page.total is not None and download.rows >= page.total):
            return download
        blank_pages = blank_pages + 1 if download.size == before else 0
        if blank_pages == MOST_BLANK_PAGES:
            break
    raise TinyGPTError(
        f"The first {download.rows:,} rows of {rows.dataset} hold too little text: choose another column or split."
    )


def ask_for_page(server: DatasetsServer, rows: Rows, offset: int) -> Page:
    where = {"config": str(rows.config), "split": str(rows.split)}
    answer = server.get("/rows", rows.dataset, **where, offset=offset, length=rows.rows_per_page)
    return read_page(rows.dataset, answer)


def add_page(download: Download, rows: Rows, page: Page) -> None:
    column = download.column = download.column or choose_column(rows, page)
    download.partial = page.partial
    for row in page.rows:
        if column not in row.cells:
            raise TinyGPTError(
                f"The dataset {rows.dataset} has no column {column!r}: choose one of {some_columns(page)}."
            )
        download.add(cell_text(rows, page, column, row), column in row.truncated)
        if download.full:
            return


def choose_column(rows: Rows, page: Page) -> str:
    """`text` where there is one, else the only column of strings, else the only one of lists of strings."""
    for kind in (TEXT, LINES):
        named = [name for name, is_kind in page.columns.items() if is_kind == kind]
        if "text" in named:
            return "text"
        if len(named) == 1:
            return named[0]
        if named:
            break
    raise TinyGPTError(
        f"Which column of {rows.dataset} holds the text is not clear: add #column to the name, "
        f"one of {some_columns(page)}."
    )


def some_columns(page: Page) -> str:
    return ", ".join(list(page.columns)[:COLUMNS_SHOWN]) or "those on its page"


def cell_text(rows: Rows, page: Page, column: str, row: Row) -> str:
    value = row.cells[column]
    if value is None:
        return ""
    if isinstance(value, str):
        cut_list = column in row.truncated and page.columns.get(column) == LINES
        return "\n".join(whole_strings(value)) if cut_list else value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    raise TinyGPTError(f"The column {column!r} of {rows.dataset} does not hold text: choose another with #column.")


def whole_strings(cut: str) -> list[str]:
    """Those of a list of strings that the server cut short: it then sends the beginning of its JSON."""
    try:
        return [json.loads(string, strict=False) for string in WHOLE_STRING.findall(cut)]
    except ValueError:
        return []


def describe(rows: Rows) -> str:
    return f"column {rows.column} of {rows.dataset} ({rows.config}, {rows.split})"


def cache_key(url: str, wanted: Rows, budget: int) -> str:
    asked = {"server": url, "budget": budget, **asdict(wanted)}
    return sha256(json.dumps(asked, sort_keys=True).encode("utf-8"))


def read_cache(name: str, key: str) -> Corpus | None:
    """A cached text counts only beside a record with its hash; the record is written last."""
    folder = cache_dir("datasets")
    try:
        record = json.loads((folder / f"{key}.json").read_bytes())
        text = (folder / f"{key}.txt").read_bytes()
        intact = sha256(text) == record["sha256"]
        return Corpus(name, text, str(record["description"])) if intact else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_cache(key: str, text: bytes, description: str) -> None:
    folder = cache_dir("datasets")
    record = {"sha256": sha256(text), "description": description}
    write_atomically(folder / f"{key}.txt", text)
    write_atomically(folder / f"{key}.json", json.dumps(record).encode("utf-8"))
