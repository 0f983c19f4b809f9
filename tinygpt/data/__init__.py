"""Training text: one entry point for bundled recipes, local files and Hugging Face datasets."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinygpt.cache import cache_dir
from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.core.text import StreamDecoder, decode, encode
from tinygpt.data.catalog import HUB_PREFIX, HUB_SYNTAX, catalog, parse_hub_name
from tinygpt.data.corpus import Corpus
from tinygpt.data.datasets_server import Cancelled
from tinygpt.data.hub import DEFAULT_BUDGET, Progress, load_rows
from tinygpt.data.local import load_path
from tinygpt.data.recipes import RECIPES, load_recipe

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_CORPUS",
    "Cancelled",
    "Corpus",
    "CorpusInfo",
    "Progress",
    "StreamDecoder",
    "cache_dir",
    "corpus_info",
    "decode",
    "encode",
    "list_corpora",
    "load_corpus",
]

DEFAULT_CORPUS = "shakespeare"


@dataclass(frozen=True)
class CorpusInfo:
    """What is known of a named corpus before it is fetched."""

    name: str
    title: str
    description: str
    size: str
    language: str
    licence: str
    source: str  # the package or the dataset it comes from


def list_corpora() -> list[CorpusInfo]:
    """Recipes first, then the Hugging Face catalog."""
    recipes = [
        CorpusInfo(r.name, r.title, r.description, r.size, "en", "public domain", f"package {r.package}")
        for r in RECIPES.values()
    ]
    hub = [
        CorpusInfo(e.name, e.title, e.description, e.size, e.language, e.licence, f"dataset {e.dataset}")
        for e in catalog().values()
    ]
    return recipes + hub


def corpus_info(name: str) -> CorpusInfo:
    for info in list_corpora():
        if info.name == name:
            return info
    raise unknown(name)


def load_corpus(
    source: str | None = None,
    *,
    file: Path | None = None,
    budget: int = DEFAULT_BUDGET,
    token: str | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    refresh: bool = False,
) -> Corpus:
    """The text of a named corpus, of an `hf:` dataset or of a file or folder; `shakespeare` when nothing is named.

    `budget`, `token`, `progress` and `cancelled` concern Hugging Face datasets; `refresh` ignores what is cached.
    """
    if file is not None:
        if source is not None:
            raise TinyGPTError("Give either a corpus name or a file, not both.")
        return load_path(Path(file))
    name = DEFAULT_CORPUS if source is None else source
    if name in RECIPES:
        return load_recipe(RECIPES[name], refresh=refresh)
    if name in catalog():
        rows = catalog()[name].rows
    elif name.startswith(HUB_PREFIX):
        rows = parse_hub_name(name)
    else:
        raise unknown(name)
    return load_rows(name, rows, budget=budget, token=token, progress=progress, cancelled=cancelled, refresh=refresh)


def unknown(name: str) -> TinyGPTError:
    if os.path.exists(os.path.expanduser(name)):
        return TinyGPTError(f"There is no corpus {name!r}, but there is such a path: use --file {name}.")
    closest = nearest(name, [*RECIPES, *catalog()])
    meant = f"did you mean {closest!r}?" if closest else f"see `tinygpt data list`, or name it as {HUB_SYNTAX}."
    return TinyGPTError(f"There is no corpus {name!r}: {meant}")
