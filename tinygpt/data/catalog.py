"""The catalog of Hugging Face datasets, which the page has too."""

import functools
import importlib.resources
import json
from dataclasses import dataclass

from tinygpt.core.hub.names import ROWS_PER_PAGE, Rows


@dataclass(frozen=True)
class CatalogEntry:
    name: str
    title: str
    description: str
    dataset: str
    config: str
    split: str
    column: str
    size: str
    licence: str
    language: str
    rows_per_page: int = ROWS_PER_PAGE

    @property
    def rows(self) -> Rows:
        return Rows(self.dataset, self.config, self.split, self.column, self.rows_per_page)


@functools.cache
def catalog() -> dict[str, CatalogEntry]:
    text = importlib.resources.files("tinygpt.data").joinpath("catalog.json").read_text("utf-8")
    return {entry["name"]: CatalogEntry(**entry) for entry in json.loads(text)}
