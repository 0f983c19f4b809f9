"""Whatever a flag, a file or the environment says is taken or refused in one sentence, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_helpers import CALM, TINY, metrics, one_line_error, process, succeed, tinygpt

from tinygpt.core.hub.names import Rows
from tinygpt.data.hub import cache_key, read_cache, write_cache

SOON = pytest.mark.timeout(300)
DEEP = 100_000


@pytest.mark.parametrize("stop", ["\\x", "\\u20ac", "\\N{nothing}", "a\\"])
def test_a_stop_that_is_no_byte(stop: str, straight_run: Path) -> None:
    error = one_line_error(tinygpt("sample", straight_run, "--stop", stop))
    assert "--stop takes a text" in error and stop in error


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        (b"a = " + b"[" * DEEP, "is nested too deeply"),
        (b"a = " + b"{a=" * DEEP, "is nested too deeply"),
        (b"[train]\nsteps = " + b"9" * 5000, "holds a number that is too long"),
        (b"preset = [" + b"1," * 100_000 + b"]", "preset must be text"),
        (b"#" * (1 << 20) + b"\n", "it holds more than 1,048,576 bytes"),
        (b'[data]\nfile = "a\\u0000b"', "There is no file or folder a·b"),
        (b'[data]\nfile = "~nobody-of-that-name/b"', "There is no file or folder ~nobody-of-that-name/b"),
        (b'[data]\nname = "~nobody-of-that-name"', "There is no corpus '~nobody-of-that-name'"),
        (b'[data]\nname = "a\\u0000b"', "There is no corpus 'a"),
    ],
)
def test_odd_settings(toml: bytes, sentence: str, tmp_path: Path) -> None:
    config = tmp_path / "odd.toml"
    config.write_bytes(toml)
    error = one_line_error(tinygpt("train", "--config", config, "--out", tmp_path / "run"))
    assert sentence in error and len(error) < 1000


@SOON
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("flag", ["--config", "--file"])
def test_what_is_no_plain_file(kind: str, flag: str, tmp_path: Path) -> None:
    place = Path("/dev/zero") if kind == "device" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    error = one_line_error(tinygpt("train", flag, place, "--out", tmp_path / "run"))
    assert str(place) in error and not (tmp_path / "run").exists()


@SOON
def test_an_endless_prompt(straight_run: Path) -> None:
    with open("/dev/zero", "rb") as endless:
        done = process("sample", straight_run, "--prompt", "-", stdin=endless)
    assert done.returncode == 1 and b"error: the prompt on stdin is too long" in done.stderr


def test_a_file_that_refers_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "Too many levels" in one_line_error(tinygpt("train", "--file", tmp_path / "loop"))


def test_a_name_that_is_no_text(text_file: Path, tmp_path: Path) -> None:
    """A name of any bytes may be read; a config.toml could not keep it, but a folder's may be anything."""
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(odd + ".txt").write_bytes(text_file.read_bytes())
    arguments = ["train", "--preset", "tiny", *TINY, *CALM, "--steps", 2]
    done = process(*arguments, "--file", odd + ".txt")
    assert done.returncode == 1 and b"is not UTF-8" in done.stderr and b"Traceback" not in done.stderr
    done = process(*arguments, "--file", text_file, "--out", odd)
    assert done.returncode == 0 and b"caf\xc2\xb7" in done.stdout, done.stderr


def test_a_terminal_without_the_letters(straight_run: Path) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for command in (["inspect", straight_run], ["sample", straight_run, "--prompt", "é", "--tokens", 3]):
        done = process(*command, env=ascii_only)
        assert done.returncode == 0 and done.stdout.isascii(), done.stderr


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"HF_TOKEN": "ümlaut"}, "HF_TOKEN holds characters"),
        ({"HF_TOKEN": "two\nlines"}, "HF_TOKEN holds characters"),
        ({"HTTPS_PROXY": "foo://x"}, "_PROXY"),
        ({"ALL_PROXY": "http://[::1"}, "_PROXY"),
        ({"NO_PROXY": "http://a:b"}, "_PROXY"),
        ({"SSL_CERT_FILE": "/nowhere"}, "SSL_CERT_FILE"),
    ],
)
def test_odd_network_variables(
    variables: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path))
    monkeypatch.setenv("TINYGPT_HF_DATASETS_SERVER", "http://127.0.0.1:1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert sentence in one_line_error(tinygpt("data", "fetch", "hf:a/b"))


def test_odd_places_for_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINYGPT_CACHE", "/dev/null/~")
    assert "TINYGPT_CACHE" in one_line_error(tinygpt("data", "fetch", "moby-dick"))
    monkeypatch.delenv("TINYGPT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "no home folder" in one_line_error(tinygpt("data", "fetch", "moby-dick"))


@pytest.mark.parametrize("record", [b"[" * DEEP, b"[]", b'{"sha256": ["'])
def test_a_damaged_cache_record_is_no_record(record: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYGPT_CACHE", str(tmp_path))
    key = cache_key("http://localhost", Rows("a/b"), 10)
    write_cache(key, b"text", "one row")
    assert read_cache("a", key) is not None
    (tmp_path / "datasets" / f"{key}.json").write_bytes(record)
    assert read_cache("a", key) is None


@pytest.mark.parametrize(
    "line",
    [
        b"[" * DEEP,
        b'{"event": "step", "step": 1}',
        b'{"event": ["step"], "step": 1, "loss": 2}',
        b'{"event": "eval", "step": 1, "val_loss": "low"}',
        b'{"step": 1}',
    ],
)
def test_metrics_that_make_no_sense_are_passed_over(line: bytes, text_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeed("train", "--preset", "tiny", *TINY, *CALM, "--steps", 2, "--file", text_file, "--out", run, "-q")
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    succeed("train", "--resume", run, "--steps", 3, "-q")
    assert [event["step"] for event in metrics(run)] == [1, 2, 3]


def test_an_odd_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    assert "small" in succeed("presets").stdout
