"""Names of Hugging Face datasets: the catalog in catalog.json (the page reads it too), and `hf:` names."""

import functools
import importlib.resources
import json
import re
from dataclasses import dataclass

from tinygpt.core.errors import TinyGPTError

HUB_PREFIX = "hf:"
HUB_SYNTAX = "hf:owner/name[/config][:split][#column]"
HUB_NAME = re.compile(
    r"hf:(?P<dataset>[\w.-]+/[\w.-]+)(?:/(?P<config>[^/:#]+))?(?::(?P<split>[^/:#]+))?(?:#(?P<column>.+))?"
)


@dataclass(frozen=True)
class Rows:
    """Which text to take from which dataset; what is None is found out from the server."""

    dataset: str
    config: str | None = None
    split: str | None = None
    column: str | None = None
    rows_per_page: int = 100


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
    rows_per_page: int = 100

    @property
    def rows(self) -> Rows:
        return Rows(self.dataset, self.config, self.split, self.column, self.rows_per_page)


@functools.cache
def catalog() -> dict[str, CatalogEntry]:
    text = importlib.resources.files("tinygpt.data").joinpath("catalog.json").read_text("utf-8")
    return {entry["name"]: CatalogEntry(**entry) for entry in json.loads(text)}


def parse_hub_name(name: str) -> Rows:
    match = HUB_NAME.fullmatch(name)
    if match is None:
        raise TinyGPTError(f"{name!r} is not the name of a Hugging Face dataset: write {HUB_SYNTAX}.")
    return Rows(match["dataset"], match["config"], match["split"], match["column"])
