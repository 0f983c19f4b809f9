"""Text of a Hugging Face dataset, read page by page up to a byte budget.

A finished download is cached under a key of everything that was asked for. An interrupted one is discarded:
at the default budget it is a matter of seconds.
"""

import json
import time
from collections.abc import Callable

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.answers import read_page, read_splits
from tinygpt.core.hub.names import Rows
from tinygpt.core.hub.reading import DEFAULT_BUDGET, Reading, locate
from tinygpt.data.corpus import Corpus, sha256
from tinygpt.data.datasets_server import DatasetsServer, server_url
from tinygpt.disk.cache import cache_dir, write_atomically

Progress = Callable[[int, int, int], None]
"""Called after each page with (bytes so far, budget, rows so far)."""


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
        if not (wanted.config and wanted.split):
            wanted = locate(wanted, read_splits(wanted.dataset, server.get("/splits", wanted.dataset)))
        reading = Reading(wanted, budget)
        text = fetch(server, reading, progress)
    description = reading.describe()
    write_cache(key, text, description)
    return Corpus(name, text, description)


def fetch(server: DatasetsServer, reading: Reading, progress: Progress | None) -> bytes:
    parts = []
    while not reading.done:
        path, parameters = reading.ask()
        dataset = reading.wanted.dataset
        page = read_page(dataset, server.get(path, dataset, **dict(parameters)))
        parts.append(reading.take(page))
        if progress is not None and page.rows:
            progress(min(reading.size, reading.budget), reading.budget, reading.rows)
    return b"".join(parts)


def cache_key(url: str, wanted: Rows, budget: int) -> str:
    asked = {"server": url, "budget": budget, **wanted.as_dict()}
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
