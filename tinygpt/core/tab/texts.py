"""Texts in a browser tab: what a Hugging Face dataset is asked for, and whether a text suits a run."""

import json

from tinygpt.core.advice.choose import Asked, runs_for, sizes
from tinygpt.core.advice.law import USUAL, TextFacts
from tinygpt.core.config import TrainConfig
from tinygpt.core.corpus import check_corpus, corpus_advice, train_bytes
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.answers import Page, Split, read_page, read_splits
from tinygpt.core.hub.names import SERVER, Rows, address, parse_typed
from tinygpt.core.hub.reading import (
    Reading,
    cell_text,
    configs_of,
    likely_column,
    locate,
    rows_asked,
    splits_of,
    text_columns,
)
from tinygpt.core.hub.replies import RETRIED_STATUSES, Patience, check_status
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.tab.asked import run_of
from tinygpt.core.text import encoding_advice
from tinygpt.core.wording import in_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROWS_LOOKED_AT = 3
PREVIEW = 300  # characters
NAMES_OFFERED = 500  # configs, splits or columns


class Visit:
    """To the datasets server, which JavaScript asks. `step` is given what came of the last address, at first nothing,
    and says what is next."""

    def __init__(self, request: str) -> None:
        self.asked = json.loads(request)
        self.rows: Rows | None = None
        self.known: list[Split] | None = None
        self.reading: Reading | None = None
        self.patience: Patience | None = None

    def step(self, reply: str, body: str) -> str:
        try:
            return json.dumps(self.begin() if reply == "" else self.go_on(json.loads(reply), body))
        except TinyGPTError as error:
            return json.dumps({"error": str(error)})
        except MemoryError:
            return json.dumps(
                {"error": "The server's answer takes more memory than the page has: take another dataset."}
            )

    def begin(self) -> "dict[str, Any]":
        typed = parse_typed(self.asked["dataset"])
        config, split, column = [self.asked[name] or getattr(typed, name) for name in ("config", "split", "column")]
        per_page = self.asked.get("rowsPerPage") or typed.rows_per_page
        self.rows = Rows(typed.dataset, config, split, column, per_page)
        if not self.asked["look"] and config and split:
            self.reading = Reading(self.rows, self.asked["budget"])
        return self.ask()

    def ask(self) -> "dict[str, Any]":
        assert self.rows is not None
        if self.reading is not None:
            path, parameters = self.reading.ask()
        elif self.known is None:
            path, parameters = "/splits", []
        else:
            path, parameters = "/rows", rows_asked(self.rows, 0, ROWS_LOOKED_AT)
        self.patience = Patience(self.rows.dataset, SERVER)
        self.place = SERVER + address(path, [("dataset", self.rows.dataset)] + parameters)
        return {"address": self.place, "wait": 0}

    def go_on(self, reply: "dict[str, Any]", body: str) -> "dict[str, Any]":
        assert self.rows is not None and self.patience is not None
        status = reply["status"]
        if status == 0:
            return {"address": self.place, "wait": self.patience.after_silence("no answer")}
        content = parsed(body)
        if status in RETRIED_STATUSES:
            return {"address": self.place, "wait": self.patience.after_busy(status, reply["wait"], content)}
        remedy = "check that your token may read it" if self.asked["token"] else "enter a token if you may read it"
        check_status(self.rows.dataset, status, content, remedy)
        if content is None:
            raise TinyGPTError(f"What answers at {SERVER} is no datasets server: check the network connection.")
        return self.take(content)

    def take(self, content: "dict[str, Any]") -> "dict[str, Any]":
        assert self.rows is not None
        if self.reading is not None:
            return self.read(self.reading, read_page(self.rows.dataset, content))
        if self.known is None:
            self.known = read_splits(self.rows.dataset, content)
            self.rows = locate(self.rows, self.known)
            if not self.asked["look"]:
                self.reading = Reading(self.rows, self.asked["budget"])
            return self.ask()
        return {"done": self.choices(self.known, read_page(self.rows.dataset, content))}

    def read(self, reading: Reading, page: Page) -> "dict[str, Any]":
        text = reading.take(page)
        said: dict[str, Any] = {"done": {"description": reading.describe()}} if reading.done else self.ask()
        said.update({"text": text.decode(), "size": min(reading.size, reading.budget), "rows": reading.rows})
        return said

    def choices(self, known: "list[Split]", page: Page) -> "dict[str, Any]":
        """What there is, and what is likely meant; `column` is none where that is not clear."""
        assert self.rows is not None
        columns = text_columns(page)
        column = self.rows.column if self.rows.column in columns else likely_column(page)
        shown = ""
        if column is not None and page.rows and column in page.rows[0].cells:
            chosen = self.rows.of(self.rows.config, self.rows.split, column)
            shown = cell_text(chosen, page, page.rows[0])[:PREVIEW]
        return {
            "dataset": self.rows.dataset,
            "config": self.rows.config,
            "split": self.rows.split,
            "column": column,
            "configs": configs_of(known)[:NAMES_OFFERED],
            "splits": splits_of(known, str(self.rows.config))[:NAMES_OFFERED],
            "columns": columns[:NAMES_OFFERED],
            "total": page.total,
            "preview": shown,
        }


def parsed(body: str) -> "dict[str, Any] | None":
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def advice(request: str) -> str:
    """Sentences on a text for a run. What keeps the run from starting is one of them."""
    asked = json.loads(request)
    found = []
    warning = encoding_advice(bytes(asked["start"]))
    if warning:
        found.append(warning)
    try:
        if asked.get("timed"):
            held_out = asked["changes"].get("val_fraction", TrainConfig().val_fraction)
            training = train_bytes(asked["bytes"], held_out)
            runs_for(Asked(TextFacts(training, USUAL), asked["bytes"] - training, sizes(), {}, 0, 0, 0.0))
            return json.dumps([in_labels(sentence) for sentence in found])
        config = run_of(asked, asked.get("config"), asked.get("lora"))
        training = train_bytes(asked["bytes"], config.train.val_fraction)
        check_corpus(config, training)
        found = found + corpus_advice(config, training, asked["bytes"] - training, trained_count(config))
    except TinyGPTError as error:
        found.append(str(error))
    return json.dumps([in_labels(sentence) for sentence in found])
