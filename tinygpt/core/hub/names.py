"""What a dataset, and the text to take from it, is called; and where the server has it."""

from tinygpt.core.errors import TinyGPTError

SERVER = "https://datasets-server.huggingface.co"
SITE = "https://huggingface.co/datasets/"  # where people see datasets, and copy addresses from
HUB_PREFIX = "hf:"
HUB_SYNTAX = "hf:owner/name[/config][:split][#column]"
ROWS_PER_PAGE = 100  # the most that the server gives at once
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


class Rows:
    """Which text to take from which dataset; what is None is found out from the server."""

    def __init__(
        self,
        dataset: str,
        config: "str | None" = None,
        split: "str | None" = None,
        column: "str | None" = None,
        rows_per_page: int = ROWS_PER_PAGE,
    ) -> None:
        self.dataset = dataset
        self.config = config
        self.split = split
        self.column = column
        self.rows_per_page = rows_per_page

    def of(self, config: "str | None", split: "str | None", column: "str | None") -> "Rows":
        return Rows(self.dataset, config, split, column, self.rows_per_page)

    def describe(self) -> str:
        return f"column {self.column} of {self.dataset} ({self.config}, {self.split})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.as_dict() == other.as_dict()

    def as_dict(self) -> "dict[str, str | int | None]":
        return {
            "dataset": self.dataset,
            "config": self.config,
            "split": self.split,
            "column": self.column,
            "rows_per_page": self.rows_per_page,
        }


def parse_hub_name(name: str) -> Rows:
    """By HUB_SYNTAX."""
    place, hash_sign, column = name[len(HUB_PREFIX) :].partition("#")
    place, colon, split = place.partition(":")
    parts = place.split("/")
    stated = [split] * len(colon) + [column] * len(hash_sign) + parts
    wrong = not name.startswith(HUB_PREFIX) or len(parts) not in (2, 3) or "" in stated or "/" in split
    if wrong or not all(letter in LETTERS for letter in parts[0] + parts[1]):
        raise TinyGPTError(f"'{name}' is not the name of a Hugging Face dataset: write {HUB_SYNTAX}.")
    return Rows(parts[0] + "/" + parts[1], parts[2] if len(parts) == 3 else None, split or None, column or None)


def parse_typed(text: str) -> Rows:
    """The same, as somebody types or copies it: with or without `hf:`, or the address of the dataset's page."""
    name = text.strip()
    if name.startswith(SITE):
        parts = name[len(SITE) :].split("?")[0].split("#")[0].split("/")
        name = "/".join(parts[:2])
    return parse_hub_name(name if name.startswith(HUB_PREFIX) else HUB_PREFIX + name)


def address(path: str, parameters: "list[tuple[str, str | int]]") -> str:
    """Below the server's own."""
    return path + "?" + "&".join([f"{name}={quoted(str(value))}" for name, value in parameters])


def quoted(text: str) -> str:
    return "".join([chr(byte) if chr(byte) in LETTERS else f"%{byte:02X}" for byte in text.encode()])
