import gzip
import os
from pathlib import Path

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.data import load_corpus
from tinygpt.data.columns import advice_of
from tinygpt.data.local import load_path


def test_a_file_is_taken_byte_for_byte(tmp_path: Path) -> None:
    content = "naïve\r\ntext".encode() + b"\xff\x00"
    (tmp_path / "notes.txt").write_bytes(content)
    corpus = load_corpus(file=tmp_path / "notes.txt")
    assert (corpus.name, corpus.text, corpus.description) == ("notes.txt", content, "the file notes.txt")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.jsonl", b'{"id": 1, "body": "first\\nnote"}\n\n{"id": 2, "body": "second"}\n{"id": 3, "body": ""}\n'),
        ("notes.csv", b'id,body\n1,"first\nnote"\n2,second\n3,\n'),
        ("notes.tsv", b'id\tbody\n1\t"first\nnote"\n2\tsecond\n'),
    ],
)
def test_a_column_of_a_table_is_a_text(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    corpus = load_path(tmp_path / f"{name}#body")
    assert corpus.text == b"first\nnote\n\nsecond\n" and corpus.name == f"{name}#body"
    assert load_path(tmp_path / name).text == content
    assert advice_of(tmp_path / name, content).endswith(f"write {name}#body (it has id, body)")
    with pytest.raises(TinyGPTError, match="has no column 'bod'; did you mean 'body'"):
        load_path(tmp_path / f"{name}#bod")
    (tmp_path / name).write_bytes(b'{"broken\n"x')
    with pytest.raises(TinyGPTError, match=r"is not JSON|not a whole CSV|has no column"):
        load_path(tmp_path / f"{name}#body")
    assert advice_of(tmp_path / "notes.txt", content) == ""


def test_a_web_address_is_refused() -> None:
    with pytest.raises(TinyGPTError, match="is a web address: download it first"):
        load_path(Path("https://example.com/notes.txt"))


def test_a_gzipped_file_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"packed"))
    assert load_path(tmp_path / "a.txt.gz").text == b"packed"


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"packed" * 99, mtime=0)[:-9]], ids=["no gzip", "cut"])
def test_a_broken_gzip_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(TinyGPTError, match="is not a whole gzip file"):
        load_path(tmp_path / "a.gz")


def test_a_folder_is_its_text_files_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "book"
    for name, content in {
        "b.txt": b"second",
        "a/z.md": b"first",
        "c.py": b"third",
        "photo.jpg": b"\xff\xd8\x00\x01",
        "empty": b"",
        ".hidden": b"no",
        ".git/config": b"no",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    corpus = load_corpus(file=folder)
    assert corpus.text == b"first\nsecond\nthird"
    assert corpus.description == "the folder book, 3 text files, 2 skipped as binary or empty"


def test_a_link_to_nowhere_in_a_folder_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    assert load_path(tmp_path).text == b"text"


def test_missing_and_empty_are_one_sentence_each(tmp_path: Path) -> None:
    with pytest.raises(TinyGPTError, match="There is no file or folder"):
        load_path(tmp_path / "gone.txt")
    (tmp_path / "blank.txt").write_text(" \n")
    for path in (tmp_path / "blank.txt", tmp_path):
        with pytest.raises(TinyGPTError, match="There is no text in"):
            load_path(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("text")
    (tmp_path / "secret.txt").chmod(0)
    with pytest.raises(TinyGPTError, match=r"Cannot read .*secret\.txt"):
        load_path(tmp_path / "secret.txt")


def test_a_read_error_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_disk(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(Path, "open", broken_disk)
    with pytest.raises(TinyGPTError, match=r"Cannot read .*a.txt \(Input/output error\)"):
        load_path(tmp_path / "a.txt")


def test_too_much_text_is_refused_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 60)
    (tmp_path / "b.txt").write_bytes(b"x" * 60)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"x" * 5000))
    assert len(load_path(tmp_path / "a.txt", size_limit=60).text) == 60
    for path, limit in ((tmp_path / "a.txt", 59), (tmp_path, 100), (tmp_path / "bomb.gz", 1000)):
        with pytest.raises(TinyGPTError, match="bytes of text: give a smaller part"):
            load_path(path, size_limit=limit)
