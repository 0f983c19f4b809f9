"""Nothing that a file says reaches the terminal raw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_helpers import one_line_error, succeed, tinygpt
from typer.testing import Result

from tinygpt.core.config import LoraConfig
from tinygpt.engines.base import State
from tinygpt.formats import Checkpoint, load_model, save_tinygpt

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
    lora = pytest.importorskip("tinygpt.reference.lora")
    settings = LoraConfig(rank=1)
    run = replace(hostile, state=State(1, lora.initial_adapter(hostile.config.model, settings, 0)))
    path = tmp_path / "whale.safetensors"
    lora.save_adapter(path, lora.Adapter(ESCAPE, settings, ESCAPE, run))
    require_harmless(succeed("lora", "info", path))
    result = tinygpt("sample", straight_run, "--adapter", path)
    one_line_error(result)
    require_harmless(result)


def test_of_a_name(tmp_path: Path) -> None:
    result = tinygpt("inspect", tmp_path / ESCAPE)
    one_line_error(result)
    require_harmless(result)
