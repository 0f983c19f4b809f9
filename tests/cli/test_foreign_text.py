"""Nothing that a file says reaches the terminal raw."""

from __future__ import annotations

import os
import pty
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import ENVIRONMENT, TINY, command, one_line_error, succeed, tinygpt
from rich.live import Live
from rich.table import Table
from typer.testing import Result

from tinygpt.cli.output import Output
from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.engines.base import State
from tinygpt.kernels.init import initial_values
from tinygpt.store.formats import Checkpoint, save_tinygpt
from tinygpt.store.formats.adapter_file import Adapter, save_adapter
from tinygpt.store.naming import load_model

ESCAPE = "mine\x1b]0;mine\x07\x9b2J\nerror: forged"


@pytest.fixture
def hostile(straight_run: Path) -> Checkpoint:
    model = replace(load_model(straight_run), backend=ESCAPE, saved_at=ESCAPE, data={"name": ESCAPE})
    model.progress.sample = "\x1b[2J\x9b2J"
    return model


def require_harmless(result: Result) -> None:
    shown = result.stdout + result.stderr
    assert "mine" in shown
    assert all(char.isprintable() for char in shown.replace("\n", ""))
    assert "error: forged" not in [line[: len("error: forged")] for line in shown.splitlines()]


def test_of_a_model(hostile: Checkpoint, tmp_path: Path) -> None:
    save_tinygpt(tmp_path / "model.tinygpt", hostile)
    require_harmless(succeed("inspect", tmp_path / "model.tinygpt"))


def test_of_an_adapter(hostile: Checkpoint, straight_run: Path, tmp_path: Path) -> None:
    config = RunConfig(hostile.config.model, hostile.config.train, LoraConfig(rank=1))
    run = replace(hostile, config=config, state=State(1, initial_values(config)))
    path = tmp_path / "whale.safetensors"
    save_adapter(path, Adapter(ESCAPE, ESCAPE, run))
    require_harmless(succeed("lora", "info", path))
    result = tinygpt("sample", straight_run, "--adapter", path)
    one_line_error(result)
    require_harmless(result)


def test_of_a_name(tmp_path: Path) -> None:
    result = tinygpt("inspect", tmp_path / ESCAPE)
    one_line_error(result)
    require_harmless(result)


MARKUP = "red] $\\frac$ [bold]mine :smile:.txt"  # in a folder called "[" it closes a tag


@pytest.fixture
def marked_up(text_file: Path, tmp_path: Path) -> Path:
    text = tmp_path / "[" / MARKUP
    text.parent.mkdir()
    text.write_bytes(text_file.read_bytes())
    return text


def test_of_a_name_with_markup(marked_up: Path, tmp_path: Path, drawn: None) -> None:
    """Neither a terminal's markup nor a picture's, where the text is loaded, listed and drawn."""
    run = tmp_path / "[red]run"
    result = succeed("train", "--preset", "tiny", *TINY, "--steps", 2, "--file", marked_up, "--out", run)
    assert f"corpus  {MARKUP}:" in result.stdout and str(run) in result.stdout and (run / "loss.png").exists()


def test_on_a_terminal(marked_up: Path) -> None:
    """The name is in the line that spins while the text is loaded, and in what follows."""
    text = marked_up.rename(marked_up.with_name(f"{MARKUP} {ESCAPE}"))
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        command("data", "show", "--file", text), env={**ENVIRONMENT, "COLUMNS": "400", "TERM": "xterm"}, stdout=terminal
    ) as running:
        os.close(terminal)
        shown = b""
        with pytest.raises(OSError):  # the terminal's end
            while True:
                shown += os.read(ours, 4096)
    assert running.returncode == 0 and b"[/red]" in shown and shown.count(b"[bold]mine :smile:") >= 3
    assert b"\x1b]0;" not in shown and "\x9b".encode() not in shown


@pytest.mark.parametrize("kind", ["row", "title", "live"])
def test_whatever_is_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    console = Output().console
    if kind == "live":
        with Live(ESCAPE, console=console):
            pass
    else:
        table = Table(ESCAPE, title=ESCAPE if kind == "title" else None)
        table.add_row(ESCAPE)
        console.print(table)
    shown = capsys.readouterr().out
    assert "mine" in shown and all(char.isprintable() for char in shown.replace("\n", ""))
