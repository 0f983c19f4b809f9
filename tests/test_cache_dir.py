from pathlib import Path

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.disk.cache import cache_dir, write_atomically


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path / "own"))
    assert cache_dir("a", "b") == tmp_path / "own" / "a" / "b"
    monkeypatch.delenv("TINYGPT_CACHE")
    assert cache_dir() == tmp_path / "xdg" / "tinygpt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_dir("a") == tmp_path / "home" / ".cache" / "tinygpt" / "a"
    assert cache_dir("a").is_dir()


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path / "file"))
    with pytest.raises(TinyGPTError, match="set TINYGPT_CACHE to a folder you can write to"):
        cache_dir("corpora")


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    write_atomically(path, b"old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(TinyGPTError, match="No space left"):
        patch.setattr("os.replace", full_disk)
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
