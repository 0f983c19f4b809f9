"""A tiny text and a tiny run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_helpers import CALM, TINY, succeed

from tinygpt import plots


@pytest.fixture
def drawn() -> None:
    """For tests of the loss curve: the picture of a run in this process is one."""


@pytest.fixture(autouse=True)
def sketched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is laid out, but no pixels are made of it: they take longer than the tiny run itself."""

    def sketch(path: Path, *points: Any) -> None:
        plots.draw_losses(*points)
        path.write_bytes(b"")

    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(plots, "save_loss_plot", sketch)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [
        f"the {size} {animal} sat on the {place}.\n"
        for size in ("big", "old")
        for animal in ("cat", "fox", "hen")
        for place in ("mat", "log", "bed")
    ]
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("".join(lines) * 4)
    return path


@pytest.fixture(scope="session")
def straight_run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """Sixty steps without interruption, made once for all tests that only look."""
    run = tmp_path_factory.mktemp("runs") / "straight"
    succeed("train", "--preset", "tiny", *TINY, *CALM, "--file", text_file, "--steps", 60, "--out", run, "--quiet")
    return run
