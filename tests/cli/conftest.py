"""A tiny text and a tiny run."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_helpers import CALM, TINY, succeed


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
