"""Text of a Hugging Face dataset, read page by page up to a byte budget.

A finished download is cached under a key of everything that was asked for. An interrupted one is discarded:
at the default budget it is a matter of seconds.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.data.cache import cache_dir, write_atomically
from tinygpt.data.catalog import Rows
from tinygpt.data.corpus import Corpus, sha256
from tinygpt.data.datasets_server import DatasetsServer

DEFAULT_BUDGET = 2_000_000
SEPARATOR = b"\n\n"

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
    with DatasetsServer(token=token, cancelled=cancelled, sleep=sleep) as server:
        key = cache_key(server.url, wanted, budget)
        if not refresh and (cached := read_cache(name, key)):
            return cached
        rows = locate(server, wanted)
        download = fetch(server, rows, budget, progress)
    rows = replace(rows, column=download.column)
    text = download.text()
    if not text:
        raise TinyGPTError(f"There is no text in {describe(rows)}: choose another column or split.")
    cut_short = f", {download.truncated_rows} of them cut short by the server" if download.truncated_rows else ""
    description = f"{download.rows:,} rows{cut_short}, {describe(rows)}"
    write_cache(key, text, description)
    return Corpus(name, text, description)


def locate(server: DatasetsServer, wanted: Rows) -> Rows:
    """The config and split to read: those asked for, else `default` and `train`, else the first there are."""
    if wanted.config and wanted.split:
        return wanted
    known = server.get("/splits", wanted.dataset).get("splits", [])
    if not known:
        raise TinyGPTError(f"The dataset {wanted.dataset} has no splits to read: try another dataset.")
    configs = [split["config"] for split in known]
    config = wanted.config or ("default" if "default" in configs else configs[0])
    splits = [split["split"] for split in known if split["config"] == config]
    if not splits:
        raise TinyGPTError(
            f"The dataset {wanted.dataset} has no config {config!r}: did you mean {nearest(config, configs)!r}?"
        )
    split = wanted.split or ("train" if "train" in splits else splits[0])
    return replace(wanted, config=config, split=split)


def fetch(server: DatasetsServer, rows: Rows, budget: int, progress: Progress | None) -> Download:
    download = Download(budget, rows.column)
    total = None
    while not download.full and (total is None or download.rows < total):
        page = server.get(
            "/rows",
            rows.dataset,
            config=str(rows.config),
            split=str(rows.split),
            offset=download.rows,
            length=rows.rows_per_page,
        )
        column = download.column = download.column or choose_column(rows, page)
        total = page.get("num_rows_total")
        if not page.get("rows"):
            break
        for item in page["rows"]:
            if column not in item["row"]:
                raise wrong_column(rows, page, column)
            download.add(cell_text(rows, column, item["row"][column]), column in item.get("truncated_cells", []))
            if download.full:
                break
        if progress is not None:
            progress(min(download.size, budget), budget, download.rows)
    return download


def choose_column(rows: Rows, page: dict[str, Any]) -> str:
    """`text` where there is one, else the only column of strings."""
    strings = [f["name"] for f in page.get("features", []) if f["type"].get("dtype") == "string"]
    if "text" in strings:
        return "text"
    if len(strings) == 1:
        return str(strings[0])
    raise TinyGPTError(
        f"Which column of {rows.dataset} holds the text is not clear: add #column to the name, "
        f"one of {', '.join(column_names(page)) or 'those on its page'}."
    )


def wrong_column(rows: Rows, page: dict[str, Any], column: str) -> TinyGPTError:
    return TinyGPTError(
        f"The dataset {rows.dataset} has no column {column!r}: choose one of {', '.join(column_names(page))}."
    )


def column_names(page: dict[str, Any]) -> list[str]:
    return [str(feature["name"]) for feature in page.get("features", [])]


def cell_text(rows: Rows, column: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    raise TinyGPTError(f"The column {column!r} of {rows.dataset} does not hold text: choose another with #column.")


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
        return Corpus(name, text, record["description"]) if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cache(key: str, text: bytes, description: str) -> None:
    folder = cache_dir("datasets")
    record = {"sha256": sha256(text), "description": description}
    write_atomically(folder / f"{key}.txt", text)
    write_atomically(folder / f"{key}.json", json.dumps(record).encode("utf-8"))
