"""Training text: one entry point for assembled corpora, tasks, local files and Hugging Face datasets."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinygpt.core.errors import TinyGPTError, nearest
from tinygpt.core.hub.names import HUB_PREFIX, HUB_SYNTAX, parse_hub_name
from tinygpt.core.hub.reading import DEFAULT_BUDGET
from tinygpt.core.presets import DEFAULT_CORPUS
from tinygpt.core.tasks import SYNTAX, TASKS, exercises, is_task
from tinygpt.core.tasks.task import PREFIX
from tinygpt.core.text import StreamDecoder, decode, encode
from tinygpt.data.assembled import ASSEMBLED, load_assembled
from tinygpt.data.catalog import catalog
from tinygpt.data.corpus import Corpus
from tinygpt.data.datasets_server import Cancelled
from tinygpt.data.hub import Progress, load_rows
from tinygpt.data.local import load_path
from tinygpt.data.tasks import TEXT_BYTES, load_task
from tinygpt.disk.cache import cache_dir

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
    "is_corpus",
    "list_corpora",
    "load_corpus",
]


@dataclass(frozen=True)
class CorpusInfo:
    """What is known of a named corpus before it is fetched."""

    name: str
    title: str
    description: str
    size: str
    language: str
    licence: str
    source: str  # the package or the dataset it comes from, or that it is made up


def list_corpora() -> list[CorpusInfo]:
    """Assembled ones first, then the tasks, then the Hugging Face catalog."""
    assembled = [
        CorpusInfo(r.name, r.title, r.description, r.size, r.language, r.licence, f"package {r.package}")
        for r in ASSEMBLED.values()
    ]
    hub = [
        CorpusInfo(e.name, e.title, e.description, e.size, e.language, e.licence, f"dataset {e.dataset}")
        for e in catalog().values()
    ]
    return assembled + list_tasks() + hub


def list_tasks() -> list[CorpusInfo]:
    infos = []
    for task in TASKS:
        name = PREFIX + task.name
        description = (
            f"{task.help}, as in {exercises(name).example()}. The difficulty is {task.measure}, from {task.low} to "
            f"{task.high}, {task.default} unless stated: {name}:{task.default}. All that can be stated: {SYNTAX}."
        )
        infos.append(CorpusInfo(name, task.help, description, "any", "none", "public domain", "made up, line by line"))
    return infos


def corpus_info(name: str) -> CorpusInfo:
    for info in list_corpora():
        if info.name == name:
            return info
    raise unknown(name)


def is_corpus(name: str) -> bool:
    """Whether `load_corpus` takes it."""
    return name in ASSEMBLED or is_task(name) or name in catalog() or name.startswith(HUB_PREFIX)


def load_corpus(
    source: str | None = None,
    *,
    file: Path | None = None,
    budget: int | None = None,
    token: str | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    refresh: bool = False,
) -> Corpus:
    """The text of a named corpus, an `hf:` dataset, a `task:` or a file or folder; `shakespeare` when nothing is named.

    `budget` is in bytes, of a Hugging Face dataset (unless stated DEFAULT_BUDGET) or of a task (TEXT_BYTES); `token`,
    `progress` and `cancelled` concern Hugging Face datasets; `refresh` ignores what is cached.
    """
    if file is not None:
        if source is not None:
            raise TinyGPTError("Give either a corpus name or a file, not both.")
        return load_path(Path(file))
    name = DEFAULT_CORPUS if source is None else source
    if name in ASSEMBLED:
        return load_assembled(ASSEMBLED[name], refresh=refresh)
    if is_task(name):
        return load_task(name, TEXT_BYTES if budget is None else budget)
    if name in catalog():
        rows = catalog()[name].rows
    elif name.startswith(HUB_PREFIX):
        rows = parse_hub_name(name)
    else:
        raise unknown(name)
    return load_rows(
        name,
        rows,
        budget=DEFAULT_BUDGET if budget is None else budget,
        token=token,
        progress=progress,
        cancelled=cancelled,
        refresh=refresh,
    )


def unknown(name: str) -> TinyGPTError:
    if os.path.exists(os.path.expanduser(name)):
        return TinyGPTError(f"There is no corpus {name!r}, but there is such a path: use --file {name}.")
    tasks = [task.name for task in TASKS]
    closest = nearest(name, [*ASSEMBLED, *tasks, *catalog()])
    closest = PREFIX + closest if closest in tasks else closest
    meant = f"did you mean {closest!r}?" if closest else f"see `tinygpt data list`, or name it as {HUB_SYNTAX}."
    return TinyGPTError(f"There is no corpus {name!r}: {meant}")
